"""Exports of chats as JSON: Telegram, Slack, Discord, Messenger, Instagram, Skype."""

import html
import json
from functools import cache

import regex

from convsim_mini.data.conversations import Message
from convsim_mini.data.texts import misread, time_of

SLACK_SAID = {None, "file_share", "me_message", "thread_broadcast"}    # subtypes of people
SLACK_LINK = regex.compile(r"<[@#!]?([^<>|]+)(?:\|([^<>]*))?>")        # <@U1>, <http://x|label>
MARKUP = regex.compile(r"(?s)<quote.*?</quote>|<[^<>]+>")              # Skype's
# Messenger's and Instagram's own words
META_SAID = regex.compile(r"(?i)(?:reacted .{1,9} to your|liked a) message.*|.* unsent a message\.?"
                          r"|.* sent an? (?:attachment|photo|video|sticker|gif)\.?")


def read_json(data, thread, path):
    """Yield the Messages in an export, at any depth; None for one left out."""
    for place, (reader, messages) in enumerate(lists(data), start=1):
        yield from reader(messages, path if reader is slack else f"{thread}/{place}")


def lists(data):
    """Yield every list of messages with the function that reads it."""
    values = data.values() if isinstance(data, dict) else data
    messages = [one for one in values if isinstance(one, dict)]
    reader = next((reader for field, reader in READERS.items()
                   if any(field in one for one in messages)), None)
    if not reader and any(one.get("type") == "message" for one in messages):
        reader = telegram
    elif not reader and any("author" in one for one in messages):    # Telegram may have it, too
        reader = discord
    if reader:
        yield reader, messages
    else:
        for value in values:
            if isinstance(value, dict | list):
                yield from lists(value)


def telegram(messages, thread):
    """A chat or a group with topics; a text may be a list of strings and entities.

    A reply to the message that created a topic only says that it belongs there.
    """
    topics = {one.get("id") for one in messages if one.get("action") == "topic_created"}
    topic_of = {}                                             # id of a message → topic
    for one in messages:
        reply = one.get("reply_to_message_id")
        if one.get("reply_to_peer_id"):                       # it is of another chat
            reply = None
        topic = reply if reply in topics else topic_of.get(reply)
        topic_of[one.get("id")] = topic
        if one.get("type") != "message" or {"forwarded_from", "via_bot"} & one.keys():
            yield None
            continue
        text = "".join(part if isinstance(part, str) else part["text"]
                       for part in one.get("text") or "")
        place = f"{thread}/{topic}" if topic is not None else thread
        yield Message(text, place, one.get("from"), f"{thread}/{one.get('id')}",
                      f"{thread}/{reply}" if reply and reply not in topics else "",
                      time_of(one.get("date_unixtime") or one.get("date")))


def slack(messages, path):
    """A channel's day. A message and what was said below it are a thread, and it is the channel's.

    What apps say is left out: they have a bot_id, or users.json says that they are bots.
    """
    channel, (names, bots) = path.parent.name, users(path.parent.parent / "users.json")
    for one in sorted(messages, key=lambda one: float(one.get("ts", 0))):
        user = one.get("user") or one.get("username")
        app = one.get("bot_id") or one.get("bot_profile") or user in bots or user == "USLACKBOT"
        if app or one.get("subtype") not in SLACK_SAID:
            yield None
            continue
        text = one.get("text") or text_of_blocks(one.get("blocks"))
        text = SLACK_LINK.sub(lambda link: link[2] or names.get(link[1], link[1]), text)
        above = one.get("thread_ts")
        places = [channel] if not above else [f"{channel}/{above}"]
        if above and (above == one["ts"] or one.get("subtype") == "thread_broadcast"):
            places.append(channel)
        for place in places:
            yield Message(html.unescape(text), place, names.get(user, user),
                          f"{channel}/{one.get('ts')}", time=time_of(one.get("ts")))


def text_of_blocks(blocks):
    """The text of Slack's rich text: nested lists of elements."""
    texts = []
    for block in blocks or ():
        elements = block.get("elements")
        one = text_of_blocks(elements) if elements else block.get("text") or block.get("url")
        if block.get("type") == "user":
            one = f"<@{block['user_id']}>"
        elif block.get("type") == "emoji":
            one = f":{block['name']}:"
        texts.append(one if isinstance(one, str) else "")
        texts.append("\n" if elements else "")
    return "".join(texts)


@cache
def users(path):
    """id → name, and the ids of bots, from Slack's users.json; without that file, none."""
    found = json.loads(path.read_bytes()) if path.exists() else []
    return ({one["id"]: one.get("profile", {}).get("display_name") or one.get("real_name")
             or one["name"] for one in found}, {one["id"] for one in found if one.get("is_bot")})


def discord(messages, thread):
    """A channel, as DiscordChatExporter writes it."""
    for one in messages:
        author, reference = one.get("author") or {}, one.get("reference") or {}
        reply = reference.get("messageId") if one.get("type") == "Reply" else None
        said = one.get("type") in ("Default", "Reply") and not author.get("isBot")
        yield Message(one.get("content"), thread, author.get("nickname") or author.get("name"),
                      one.get("id"), reply, time_of(one.get("timestamp"))) if said else None


def meta(messages, thread):
    """A chat of Messenger or Instagram, in both of their forms; the older one is misread UTF-8."""
    for one in messages:
        speaker, text = one.get("sender_name") or one.get("senderName"), one.get("content")
        if text is None and one.get("type") == "text":
            text = one.get("text")
        elif "sender_name" in one:
            speaker, text = (one and (misread(one) or one) for one in (speaker, text))
        app = one.get("is_unsent") or one.get("isUnsent") or META_SAID.fullmatch(text or "")
        time = time_of(one.get("timestamp_ms") or one.get("timestamp"))
        yield None if app else Message(text, thread, speaker, time=time)


def skype(messages, thread):
    """A conversation."""
    for one in messages:
        said = one.get("messagetype") in ("RichText", "Text")
        text = html.unescape(MARKUP.sub("", one.get("content") or ""))
        yield Message(text, thread, one.get("displayName") or one.get("from"),
                      time=time_of(one.get("originalarrivaltime"))) if said else None


# a field that only this program's messages have → what reads them
READERS = {"messagetype": skype, "sender_name": meta, "senderName": meta, "ts": slack}
