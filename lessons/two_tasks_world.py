"""The world of lesson 20, in which truth is known: facts, their replies, pairs with a label."""

from typing import NamedTuple

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
TOPICS = {
    "music": (["plays guitar", "sings carols", "beats drums", "hears jazz"],
              "song band tune concert loud melody"),
    "sport": (["kicks footballs", "swims laps", "climbs rocks", "rides bicycles"],
              "team win race fit score train"),
    "food": (["bakes bread", "fries eggs", "eats soup", "peels apples"],
             "tasty recipe hungry lunch smell oven"),
    "study": (["reads novels", "solves equations", "writes essays", "draws maps"],
              "exam teacher clever page book pen"),
    "garden": (["plants roses", "mows lawns", "waters tulips", "digs holes"],
               "sunny soil bloom green rain spade"),
    "rest": (["naps quietly", "watches films", "drinks tea", "hums softly"],
             "cosy tired sofa relax evening calm")}
ACTIVITIES = [activity for activities, _ in TOPICS.values() for activity in activities]
PEOPLE = {"man": "person", "woman": "person", "boy": "child", "girl": "child", "robot": "machine",
          "parrot": "bird"}
PLACES = ["park", "kitchen", "garage", "library", "street", "attic"]


class Fact(NamedTuple):
    """who does what, perhaps where.

    what: a number into ACTIVITIES; general: told of a person, not of a man
    """

    who: str
    general: bool
    activity: int
    place: str | None

    @property
    def tokens(self):
        who = PEOPLE[self.who] if self.general else self.who
        return ["a", who, *ACTIVITIES[self.activity].split(),
                *(["in", "the", self.place] if self.place else [])]


def truth(premise, hypothesis):
    """The label of two facts about the same one."""
    if premise.activity != hypothesis.activity:
        return CONTRADICTION                                  # nobody does two things at once
    who_known = hypothesis.general or not premise.general
    place_known = hypothesis.place in (None, premise.place)
    return ENTAILMENT if who_known and place_known else NEUTRAL


def draw_fact(rng):
    """Any fact: who, general or not, activity, with a place or without."""
    place = str(rng.choice(PLACES)) if rng.integers(2) else None
    return Fact(str(rng.choice(list(PEOPLE))), bool(rng.integers(2)),
                int(rng.integers(len(ACTIVITIES))), place)


def other_activity(activity, rng):
    """Another activity of the same topic."""
    return activity - activity % 4 + (activity + int(rng.integers(1, 4))) % 4


def reply(activity, rng):
    """Four words of the activity's topic, in any order."""
    words = list(TOPICS.values())[activity // 4][1].split()
    return ["oh", *rng.choice(words, 4, replace=False)]


def draw_pair(label, rng):
    """A premise and a hypothesis with this label; the hypothesis alone tells nothing about it."""
    who, activity = rng.choice(list(PEOPLE)), int(rng.integers(len(ACTIVITIES)))
    place, particular = str(rng.choice(PLACES)), bool(rng.integers(2))
    hypothesis = Fact(who, not particular, activity, None if particular else place)
    if label == NEUTRAL:    # the premise lacks something that the hypothesis says
        kinds = [(True, None), (True, place)] if particular else [(False, None), (True, None)]
        general, where = kinds[rng.integers(2)]
        return Fact(who, general, activity, where), hypothesis
    if label == CONTRADICTION:
        activity = other_activity(activity, rng)
    return Fact(who, False, activity, place), hypothesis


def companions(n, rng):
    """n facts, each followed by three others, as tokens: 4 n lists.

    The same activity with less said; another activity of the same topic; another topic.
    """
    tokens = []
    for _ in range(n):
        fact = draw_fact(rng)._replace(general=False, place=str(rng.choice(PLACES)))
        a = fact.activity
        near = other_activity(a, rng)
        far = (a - a % 4 + 4 * int(rng.integers(1, 6)) + int(rng.integers(4))) % len(ACTIVITIES)
        tokens += [fact.tokens, fact._replace(place=None).tokens,
                   fact._replace(activity=near, place=None).tokens,
                   fact._replace(activity=far, place=None).tokens]
    return tokens
