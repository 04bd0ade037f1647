"""Exports as the apps write them, and what is read of them."""

import json

import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.data.pairs import read_rows
from data_scripts import chats
from data_scripts.whatsapp import whatsapp

STAMPS = [    # of WhatsApp in some countries, and on iPhones; # is the minute
    "12/31/23, 9:1#\u202fPM - ", "12/31/23, 9:1#\xa0PM - ", "31/12/2023, 21:1# - ",
    "2023-12-31, 21:1# - ", "31.12.23, 21:1# - ", "13.6.2018 klo 21.2# - ",
    "13. 6. 2018. u 21:2# - ", "13. 6. 2018 21:2# - ", "2022/1/2 下午3:0# - ",
    "2022. 1. 2. 오후 3:0# - ", "\u200f٣١\u200f/١٢\u200f/٢٠٢٣، ٩:١# م - ",
    "2023-12-20, 5:4# p.m. - ", "20/12/23, 5:4# p.\xa0m. - ", "31/12/2023 à 21:1# - ",
    "21:1#, 31/12/2023 - ", "[31.12.23, 21:17:0#] ", "\u200e[12/31/23, 9:17:0#\u202fPM] ",
    "[2022/1/2 下午3:00:0#] ", "13.06.18 21:25:1#: ", "13.06.18 21.25.1#: ", "[2019-12-24, 12:2#] "]
SAID = [("Ann Lee", "Are you coming, 12/31/23? say: yes!"), ("Bo 🎈 Kay", "Yes, at 9:15 - I am"),
        ("Ann Lee", "Who else?\n\n- Cy: and\n2018-06-18 12:59 - Dee: all")]
READ = [(who, " ".join(text.split())) for who, text in SAID]
APP_SAYS = [
    "Messages and calls are end-to-end encrypted.", "Bo created group \"Party: 2023\"",
    "Bo: <Media omitted>", "Bo: <Medien ausgeschlossen>", "Bo: This message was deleted",
    "Bo: You deleted this message.", "Bo: null", "Bo: IMG-20230603-WA0001.jpg (file attached)",
    "Bo: IMG-20230603-WA0001.jpg (Datei angehängt)", "Bo: a list.pdf (file attached)",
    "Bo: Missed voice call", "Bo: \u200eimage omitted", "Bo: image omitted", "Bo: ", "Bo added Cy",
    "Bo: location: https://maps.example/?q=1,2", "Bo: \u200e<attached: 1-PHOTO.jpg>"]
IRC = [    # how HexChat, WeeChat, irssi, mIRC, ZNC write a message, and a line that is none
    ("Jun 18 12:59:57 <{}>\t{}", "Jun 18 12:59:57 *\tAnn waves"),
    ("Jun 18 12:59:57 <@{}> {}", "**** BEGIN LOGGING AT Mon Jun 18 12:59:50 2018"),
    ("2024-06-18 12:59:57\t{}\t{}", "2024-06-18 12:59:57\t-->\tCy (c@d) has joined #e"),
    ("2024-06-18 12:59:57\t@{}\t{}", "2024-06-18 12:59:57\t<--\tCy has quit"),
    ("2024-06-18 12:59:57\t+{}\t{}", "2024-06-18 12:59:57\t--\tmode [+n] by Bo"),
    ("2024-06-18 12:59:57\t{}\t{}", "2024-06-18 12:59:57\t *\tBo waves"),
    ("12:59 < {}> {}", "12:59 -!- Cy <c@d> has joined #e"),
    ("12:59:05<@{}> {}", "12:59:05  * Bo waves <at you> all"),
    ("12:59 <{}> {}", "--- Day changed Tue Jun 19 2018"),
    ("[21:15] <+{}> {}", "[21:14] *** Ann joined"),
    ("[2018-06-18 12:59:57] <{}> \x0304,1{}\x0f", "[2018-06-18 12:59:57] *** Quits: Ann")]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


def rows_of(path, tmp_path):
    """The rows of the log, as tuples."""
    (tmp_path / "log.jsonl").unlink(missing_ok=True)
    chats.main([str(path), "--out", str(tmp_path / "log.jsonl")])
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    return [tuple(json.loads(line).values()) for line in lines]


def said(path, tmp_path):
    return [row[1:] for row in rows_of(path, tmp_path)]


# ---------------------------------------------------------------- WhatsApp

@pytest.mark.parametrize("stamp", STAMPS)
def test_whatsapp_in_each_country(stamp, tmp_path, capsys):
    lines = [f"{stamp.replace('#', str(k))}{one}" for k, one in enumerate(
        ["Messages are encrypted.", *map(": ".join, SAID)])]
    assert said(write(tmp_path / "chat.txt", "\r\n".join(lines)), tmp_path) == READ
    told = "chat.txt: messages: 3, speakers: 2, left out (by the app, or without text): 1\n"
    assert capsys.readouterr().err.endswith(told)


@pytest.mark.parametrize("line", APP_SAYS)
def test_what_whatsapp_says_is_left_out(line, tmp_path):
    lines = ["Ann: hi", line, "Ann: I changed the plan: <no> null \u200e<This message was edited>"]
    text = "\n".join(f"03/06/2023, 6:10 am - {one}" for one in lines)
    assert said(write(tmp_path / "chat.txt", text), tmp_path) == [
        ("Ann", "hi"), ("Ann", "I changed the plan: <no> null")]


def test_a_name_may_have_a_colon_and_a_picture_a_caption(tmp_path):
    said_by_both = ["Ann: Work: say: yes", "\u202a+49 1\u202c: hi", "Ann: Work: well",
                    "\u202a+49 1\u202c: IMG-20230603-WA0001.jpg (file attached)\nat the sea",
                    "Dr:Bo: one: two <This message was edited>\n[18:02, 12.3.2024] Dr:Bo: copied",
                    "Dr:Bo: \u200eIMG-2.jpg (Datei angehängt)\nat home"]
    text = "\n".join(f"2023-06-03, 6:10 am - {one}" for one in said_by_both)
    text += "\n[03.06.23, 21:15:07] Dr:Bo: from another phone\n[03.06.23, 21:15:08] Cy: pasted"
    assert said(write(tmp_path / "chat.txt", text), tmp_path) == [
        ("Ann: Work", "say: yes"), ("+49 1", "hi"), ("Ann: Work", "well"), ("+49 1", "at the sea"),
        ("Dr:Bo", "one: two <This message was edited> [18:02, 12.3.2024] Dr:Bo: copied"),
        ("Dr:Bo", "at home"), ("Dr:Bo", "from another phone [03.06.23, 21:15:08] Cy: pasted")]


@pytest.mark.parametrize("stamps, seconds", [    # what tells day from month, morning from evening
    (["1/2/24, 9:10 AM - ", "1/13/24, 9:10 PM - "], 11.5 * 86_400),
    (["1/2/24, 21:10 - ", "13/2/24, 9:10 - "], 11.5 * 86_400),
    (["2/1/24, 21:10 - ", "1/2/24, 21:10 - "], 30 * 86_400),    # else time would run backwards
    (["1/2/24, 9:10 AM - ", "1/3/24, 9:10 AM - "], 86_400),    # else it would be a month
    (["[2024/1/2 上午9:10:30] ", "[2024/1/2 下午12:10:31] "], 3 * 3_600 + 1),
    (["21:10, 2.1.2024 - ", "9:10, 1.2.2024 - "], 29.5 * 86_400),
    (["1/2/2567 21:10 - ", "2/2/2567 21:10 - "], 86_400),     # as in Thailand
    (["1/2/24, 9:10 mañana - ", "1/2/24, 9:10 noche - "], 0)])
def test_the_times_of_whatsapp(stamps, seconds):
    text = "\n".join(f"{stamp}Ann: hi" for stamp in stamps)
    first, last = (message.time for message in whatsapp(text, "a"))
    assert last - first == seconds


def test_a_late_message_stands_where_it_was_sent_and_a_long_silence_ends_a_thread(tmp_path):
    text = """
        12/31/23, 11:58 PM - Ann: are you there?
        1/1/24, 12:01 AM - Ann: happy new year
        12/31/23, 11:59 PM - Bo: yes
        1/2/24, 12:02 AM - Bo: is it Tuesday?
        1/2/24, 12:03 AM - Ann: it is""".replace("\n        ", "\n")
    path = write(tmp_path / "a.txt", text)
    first, second = "a.txt", "a.txt (2)"
    assert rows_of(path, tmp_path) == [
        (first, "Ann", "are you there?"), (first, "Bo", "yes"), (first, "Ann", "happy new year"),
        (second, "Bo", "is it Tuesday?"), (second, "Ann", "it is")]
    chats.main([str(path), "--silence", "25", "--out", str(tmp_path / "whole.jsonl")])
    assert "(2)" not in (tmp_path / "whole.jsonl").read_text()


# ---------------------------------------------------------------- LINE, IRC, Telegram, Slack

@pytest.mark.parametrize("day, night", [("2024/06/18(Tue)", "2024/06/19(Wed)"),
                                        ("Tue, 06/18/2024", "Wed, 06/19/2024")])
def test_line(day, night, tmp_path):
    text = f"""[LINE] Chat history with Bo\nSaved on: 2024/06/20 12:59\n
{day}\n11:58 PM\tAnn\tComing?\n11:59 PM\tBo\t[Sticker]\n\n{night}
12:00 AM\tBo\t"Yes\n\nI am"\n12:01 AM\tBo\t☎ Missed call\n12:02 AM\t\tBo unsent a message.
12:03 AM\tBo joined the group.\n12:04 AM\tAnn\tlovely [or not]"""
    assert said(write(tmp_path / "a.txt", text), tmp_path) == [
        ("Ann", "Coming?"), ("Bo", "Yes I am"), ("Ann", "lovely [or not]")]



@pytest.mark.parametrize("form, other", IRC)
def test_irc(form, other, tmp_path):
    spoken = [("ann", "coming? say: yes"), ("[bo]", "Yes\tI am <3"), ("ann", "é")]
    text = "\n".join([other, "", *(form.format(*one) for one in spoken), form.format("cy", "")])
    path = tmp_path / "#e.log"
    path.write_bytes(text.encode().replace("é".encode(), b"\xe9"))
    assert said(path, tmp_path) == [("ann", "coming? say: yes"), ("[bo]", "Yes I am <3"),
                                    ("ann", "\ufffd")]


def telegram(*messages):
    return {"name": "G", "messages": [{"type": "service", "id": 99, "text": "", "actor": "Ann"}, *(
        {"type": "message", "id": k, "text": text} | others
        for k, (text, others) in enumerate(messages, 1))]}


def test_telegram(tmp_path):
    ann, bo = {"from": "Ann"}, {"from": "Bo"}
    text = ["Are ", {"type": "bold", "text": "you"}, " coming?"]
    one = telegram((text, ann), ("", ann), ("Yes", bo), ("so", {"from": None}), ("be it", {}))
    whole = {"about": "…", "chats": {"about": "…", "list": [one, telegram(("hi", ann))]}}
    first, second = "result.json/1", "result.json/2"
    assert rows_of(write(tmp_path / "result.json", whole), tmp_path) == [
        (first, "Ann", "Are you coming?"), (first, "Bo", "Yes"), (first, None, "so"),
        (first, None, "be it"), (second, "Ann", "hi")]
    # with replies: Bo answers the question, Cy the one before, Ann's own words are one turn
    replied = telegram(("why?", ann), ("tell me", ann), ("by the way", {"from": "Cy"}),
                       ("because", bo | {"reply_to_message_id": 1}), ("you know", bo),
                       ("ah", ann | {"reply_to_message_id": 77}))
    rows_of(write(tmp_path / "result.json", replied), tmp_path)
    pairs = [pair[:2] for part in read_rows(tmp_path / "log.jsonl") for pair in part.pairs]
    assert pairs == [("why? tell me", "by the way"), ("why? tell me", "because you know"),
                     ("because you know", "ah")]


def test_telegram_names_the_author_of_a_signed_post(tmp_path):
    chat = telegram(("hi", {"from": "Ann"}), ("news", {"from": "The paper", "author": "Bo"}))
    assert said(write(tmp_path / "result.json", chat), tmp_path) == [
        ("Ann", "hi"), ("The paper", "news")]


def test_whom_messages_of_telegram_answer(tmp_path):
    ann, bo, cy = ({"from": name} for name in ("Ann", "Bo", "Cy"))
    topic = {"type": "service", "action": "topic_created"}
    chat = telegram(("Bikes", topic), ("Bread", topic),
                    ("which tyre?", ann | {"reply_to_message_id": 1}),
                    ("which flour?", bo | {"reply_to_message_id": 2}),
                    ("the wide one", cy | {"reply_to_message_id": 3}),
                    ("rye", cy | {"reply_to_message_id": 2}),
                    ("a goal!", bo | {"reply_to_message_id": 3, "reply_to_peer_id": "channel7"}),
                    ("breaking news", ann | {"forwarded_from": "News"}),
                    ("which goal?", cy | {"reply_to_message_id": 7}))
    rows_of(write(tmp_path / "result.json", chat), tmp_path)
    pairs = {pair[:2] for part in read_rows(tmp_path / "log.jsonl") for pair in part.pairs}
    assert pairs == {("which tyre?", "the wide one"), ("which flour?", "rye"),
                     ("a goal!", "which goal?")}


DISCORD = [{"id": "1", "type": "Default", "author": {"name": "ann", "nickname": "Ann"},
            "content": "coming?"},
           {"id": "2", "type": "Default", "author": {"name": "poll", "isBot": True}},
           {"id": "3", "type": "GuildMemberJoin", "author": {"name": "cy"}, "content": "Joined."},
           {"id": "4", "type": "Reply", "author": {"name": "Bo"}, "content": "yes",
            "reference": {"messageId": "1"}}]
OLD_META = [{"sender_name": "Bo", "timestamp_ms": 2_000, "content": "yes"},
            {"sender_name": "Bo", "timestamp_ms": 1_500, "content": "Liked a message"},
            {"sender_name": "Ann", "timestamp_ms": 1_000, "content": "coming\u00e2\u0080\u0099?"},
            {"sender_name": "Ann", "timestamp_ms": 500, "photos": []}]
NEW_META = [{"senderName": "Ann", "timestamp": 1_000, "text": "coming?", "type": "text"},
            {"senderName": "Bo", "timestamp": 2_000, "text": "yes", "type": "text"},
            {"senderName": "Bo", "timestamp": 3_000, "text": "no", "isUnsent": True}]
SKYPE = [{"from": "8:bo", "displayName": "Bo", "messagetype": "RichText", "content": "<b>yes</b>",
          "originalarrivaltime": "2026-01-02T10:02:00.0Z"},
         {"from": "8:bo", "messagetype": "Event/Call", "content": "<partlist>",
          "originalarrivaltime": "2026-01-02T10:01:00.0Z"},
         {"from": "Ann", "displayName": None, "messagetype": "RichText", "content": "coming?",
          "originalarrivaltime": "2026-01-02T10:00:00.0Z"}]


@pytest.mark.parametrize("export", [
    {"channel": {"id": "7"}, "messages": DISCORD}, {"messages": OLD_META},
    {"messages": NEW_META, "participants": ["Ann", "Bo"]},
    {"conversations": [{"MessageList": []}, {"MessageList": SKYPE}]}])
def test_json_of_other_programs(export, tmp_path):
    rows = [row[1:3] for row in rows_of(write(tmp_path / "a.json", export), tmp_path)]
    assert rows in ([("Ann", "coming?"), ("Bo", "yes")], [("Ann", "coming’?"), ("Bo", "yes")])
    lines = "\n".join(map(json.dumps, [export, {"messages": []}]))
    path = write(tmp_path / "folder" / "a.jsonl", lines)
    for source in (path, path.parent):
        assert [row[1:3] for row in rows_of(source, tmp_path)] == rows


def test_apps_of_slack_are_nobody_and_blocks_have_text(tmp_path):
    write(tmp_path / "slack" / "users.json", [{"id": "U1", "name": "ann"},
                                              {"id": "U2", "name": "poll", "is_bot": True}])
    link = {"type": "link", "url": "http://x"}
    blocks = [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
        {"type": "text", "text": "see "}, link, {"type": "text", "text": " ok "},
        {"type": "user", "user_id": "U1"}, {"type": "emoji", "name": "wave"}]}]}]
    path = write(tmp_path / "slack" / "dev" / "2024-01-01.json", [
        {"type": "message", "ts": "1.0", "user": "U1", "text": "", "blocks": blocks},
        {"type": "message", "ts": "2.0", "user": "U3", "text": "built", "bot_id": "B1"},
        {"type": "message", "ts": "3.0", "user": "U2", "text": "vote"},
        {"type": "message", "ts": "4.0", "user": "USLACKBOT", "text": "reminder"}])
    assert said(path, tmp_path) == [("ann", "see http://x ok ann:wave:")]


def test_slack(tmp_path):
    def day(*messages):
        return [{"type": "message", "ts": ts, "user": user, "text": text} | others
                for ts, user, text, others in messages]

    write(tmp_path / "slack" / "users.json", [
        {"id": "U1", "name": "ann", "profile": {"display_name": ""}, "real_name": "Ann Lee"},
        {"id": "U2", "name": "bo", "profile": {"display_name": "Bo"}}])
    write(tmp_path / "slack" / "channels.json", [{"id": "C1", "name": "general"}])
    thread = {"thread_ts": "1.5"}
    path = write(tmp_path / "slack" / "general" / "2024-01-01.json", day(
        ("1.0", "U1", "has joined", {"subtype": "channel_join"}),
        ("1.5", "U1", "<@U2>: why &lt;3?", thread),
        ("2.0", "U3", "see <http://x|this>, <http://y>", {}),
        ("10.0", "U1", "then", thread), ("9.0", "U2", "so", thread)))
    write(path.with_name("2024-01-02.json"), day(
        ("11.0", "U2", "ah", {}), ("12.0", "U2", None, {}), ("13.0", "B1", "up", {
            "subtype": "bot_message"})))
    # what opened a thread was also said in the channel
    expected = [("general/1.5", "Ann Lee", "Bo: why <3?"), ("general", "Ann Lee", "Bo: why <3?"),
                ("general", "U3", "see this, http://y"),
                ("general/1.5", "Bo", "so"), ("general/1.5", "Ann Lee", "then"),
                ("general", "Bo", "ah")]
    for export, number in ((tmp_path / "slack", 6), (path.parent, 6), (path, 5)):
        assert rows_of(export, tmp_path) == expected[:number]


@pytest.mark.parametrize("name, text, told", [
    ("chat.txt", "Ann: hi\n31.12.23 and more", "no message found; expected WhatsApp's or LINE's"),
    ("chat.txt", "31/12/2023, 21:15 - Bo: null", "no message found"),
    ("result.json", '{"chats": [', "damaged, or not as Telegram, Slack or Discord .*line 1"),
    ("result.json", "[1, 2]", "no message found"),
    ("result.json", '[{"type": "message", "text": 3}]', "damaged, or not as Telegram"),
])
def test_other_files_are_refused(name, text, told, tmp_path):
    with pytest.raises(UserError, match=told):
        chats.main.__wrapped__([str(write(tmp_path / name, text))])


def test_the_log_is_printed_or_is_a_jsonl(tmp_path, capsys):
    path = write(tmp_path / "chat.log", "12:59 <ann> hé")
    with pytest.raises(UserError, match="--out a.tsv: expected a name that ends in .jsonl"):
        chats.main.__wrapped__([str(path), "--out", "a.tsv"])
    chats.main([str(path)])
    assert json.loads(capsys.readouterr().out) == {
        "thread": "chat.log", "speaker": "ann", "text": "hé"}
