"""A seeded grammar that writes the embedded corpus: meanings are made of slots, sentences of words.

A meaning gives each slot one concept, and a concept is a tuple of wordings that mean the same. Each
sentence chooses its own wordings, voice and order, so two sentences of one meaning share few words.
The similarity of two meanings is therefore known exactly, and the overlap of words tells only a
part of it.

The committed files are the output for one seed. Every change in the order of the draws changes
them.
"""

import csv
import io
import random

Concept = tuple[str, ...]
"""Wordings that mean the same"""
Meaning = dict[str, Concept]
"""Slot -> its concept; an optional slot may be missing"""

SENTENCE_COUNT, TRIPLET_COUNT, DEV_PAIR_COUNT, TEST_PAIR_COUNT = 6000, 1500, 400, 600

# One scene a line: who | verb | what | place. A space stands between concepts, and a slash between
# the wordings of one concept. The past tense of each verb is also its participle, so that the
# passive needs no table.
_SCENES = """
chef/cook waiter/server | stirred/mixed tasted/sampled | soup/broth stew/casserole sauce/gravy | kitchen/galley restaurant/diner
singer/vocalist violinist/fiddler | performed/played rehearsed/practised | song/tune symphony/concerto lullaby/ballad | theatre/auditorium conservatory/academy
striker/forward goalkeeper/goalie | kicked/booted blocked/stopped | ball/football shot/volley penalty/throw | stadium/arena park/playground
gardener/horticulturist florist/botanist | planted/potted watered/sprinkled trimmed/pruned | rosebush/rose hedge/shrub seedling/sapling | garden/backyard greenhouse/hothouse
teacher/instructor pupil/student | explained/clarified revised/reviewed | lesson/lecture equation/formula chapter/passage | classroom/schoolroom university/college
doctor/physician nurse/medic | treated/healed examined/inspected | wound/injury patient/invalid infection/disease | hospital/clinic ward/infirmary
mechanic/technician driver/motorist | repaired/fixed polished/waxed | car/automobile engine/motor truck/lorry | garage/carport tunnel/underpass
sailor/seaman captain/skipper | steered/piloted anchored/moored | ship/vessel boat/dinghy yacht/sailboat | harbour/port bay/cove
farmer/grower shepherd/herder | fed/nourished led/guided | horse/pony cow/heifer sheep/lamb | barn/stable meadow/pasture
manager/boss secretary/clerk | signed/approved copied/duplicated | report/document invoice/bill contract/agreement | office/bureau boardroom/headquarters
lawyer/attorney judge/magistrate | questioned/interrogated accused/blamed | thief/robber witness/bystander suspect/defendant | courtroom/tribunal prison/jail
scientist/researcher chemist/biologist | measured/analysed heated/warmed | liquid/fluid crystal/mineral specimen/sample | laboratory/lab observatory/institute
painter/artist sculptor/carver | sketched/outlined framed/mounted | portrait/likeness statue/sculpture mural/fresco | gallery/museum studio/atelier
builder/contractor carpenter/joiner | demolished/flattened constructed/erected | wall/barrier cottage/cabin bridge/footbridge | village/hamlet suburb/neighbourhood
shopper/customer merchant/trader | bought/purchased returned/exchanged | jacket/coat hat/cap dress/gown | shop/store market/bazaar
tourist/traveller guide/escort | visited/toured photographed/pictured | castle/fortress temple/shrine monument/landmark | city/metropolis desert/wilderness
programmer/coder hacker/intruder | debugged/patched deleted/erased | program/application database/archive website/webpage | basement/cellar company/firm
courier/messenger postman/mailman | delivered/brought sealed/closed | parcel/package letter/envelope telegram/message | lobby/foyer street/road
astronaut/cosmonaut pilot/aviator | launched/deployed tested/checked | rocket/spacecraft satellite/probe drone/quadcopter | hangar/depot spaceport/cosmodrome
librarian/archivist writer/author | borrowed/loaned published/printed | novel/book poem/verse diary/journal | library/bookshop cafe/coffeehouse
mother/mum father/dad | hugged/embraced scolded/reprimanded | baby/infant daughter/girl son/boy | bedroom/nursery lounge/parlour
ranger/zookeeper hunter/poacher | chased/pursued captured/trapped | bear/grizzly rabbit/hare deer/stag | forest/woodland zoo/menagerie
cleaner/janitor maid/housekeeper | scrubbed/washed swept/brushed | floor/tiling window/pane carpet/rug | hotel/inn corridor/hallway
soldier/trooper general/commander | attacked/assaulted defended/guarded | camp/outpost convoy/column bunker/fort | valley/ravine trench/dugout
tailor/dressmaker weaver/seamstress | stitched/sewed mended/darned | blanket/quilt scarf/shawl curtain/drape | attic/loft factory/mill
reporter/journalist presenter/broadcaster | announced/declared recorded/taped | interview/conversation story/tale verdict/ruling | newsroom/pressroom parliament/senate
"""  # noqa: E501 - a table reads best with one scene on a line

# Slots that any scene may fill; an underscore stands for a space inside one wording.
_SHARED = {
    "quality": "tired/weary happy/cheerful young/youthful old/elderly angry/furious clever/smart "
    "brave/courageous lazy/idle famous/renowned rich/wealthy nervous/anxious polite/courteous",
    "look": "big/large small/little beautiful/lovely ugly/hideous strange/peculiar "
    "ordinary/common splendid/superb terrible/awful first/earliest last/final",
    "manner": "quickly/rapidly slowly/gradually carefully/cautiously quietly/silently "
    "gladly/willingly badly/poorly skilfully/expertly suddenly/abruptly secretly/stealthily "
    "often/frequently",
    "time": "at_dawn/at_sunrise at_noon/around_midday at_dusk/before_nightfall "
    "at_midnight/after_dark in_winter/during_the_cold_months in_springtime/in_april "
    "yesterday/the_day_before recently/not_long_ago on_sunday/at_the_weekend",
    "cause": "because_it_was_raining/as_showers_poured_down "
    "while_guests_waited/as_visitors_lingered when_a_bell_rang/once_an_alarm_sounded "
    "although_money_was_short/despite_scarce_funds after_the_storm_passed/following_a_tempest "
    "before_the_holiday_began/ahead_of_vacation because_friends_asked/to_please_companions "
    "although_nobody_watched/without_any_audience since_rules_required_it/to_obey_regulations "
    "while_the_sun_shone/under_a_bright_sky",
}

# How much each slot counts in the similarity of two meanings. The topic is the scene of the verb.
SLOT_WEIGHTS = {"topic": 2, "verb": 3, "what": 3, "who": 3, "place": 3} | dict.fromkeys(_SHARED, 1)


def _concepts(text: str) -> list[Concept]:
    """Parse concepts: `a/b c_d/e` becomes [("a", "b"), ("c d", "e")]."""
    return [tuple(word.replace("_", " ").split("/")) for word in text.split()]


def _parse_scene(line: str) -> dict[str, list[Concept]]:
    """Parse a line of the table of scenes: slot -> the concepts that it may have."""
    who, verb, what, place = map(_concepts, line.split("|"))
    return {"topic": [(line,)], "who": who, "verb": verb, "what": what, "place": place}


SCENES = [_parse_scene(line) for line in _SCENES.strip().splitlines()]
SHARED = {slot: _concepts(text) for slot, text in _SHARED.items()}
OPTIONAL = ("place", *SHARED)
"""The slots without which a sentence still is one"""


def draw_meaning(rng: random.Random, scene: int) -> Meaning:
    """Draw a meaning of one scene (an index of SCENES), with about 60% of the optional slots."""
    meaning = {slot: rng.choice(concepts) for slot, concepts in SCENES[scene].items()}
    for slot, concepts in SHARED.items():
        # A scene takes one of its three favourites three times in four. The company of a wording
        # then tells which concept it belongs to, and that is what an encoder can learn.
        favourites = [concepts[(scene * 3 + step) % len(concepts)] for step in range(3)]
        meaning[slot] = rng.choice(favourites if rng.random() < 0.75 else concepts)
    dropped = [slot for slot in OPTIONAL if rng.random() < 0.4]
    return {slot: concept for slot, concept in meaning.items() if slot not in dropped}


def similarity(first: Meaning, second: Meaning) -> float:
    """Similarity of two meanings, from 0 to 1.

    It is the weighted share of equal slots among those that at least one of the meanings fills.
    """
    slots = first.keys() | second.keys()
    kept = sum(SLOT_WEIGHTS[slot] for slot in slots if first.get(slot) == second.get(slot))
    return kept / sum(SLOT_WEIGHTS[slot] for slot in slots)


def blend(first: Meaning, second: Meaning, changed: set[str]) -> Meaning:
    """The meaning `first` with its `changed` slots as in `second`, where they may be missing."""
    # The verb brings its scene along.
    changed = changed | {"topic"} if "verb" in changed else changed
    sources = {slot: second if slot in changed else first for slot in SLOT_WEIGHTS}
    return {slot: source[slot] for slot, source in sources.items() if slot in source}


def put_in_words(rng: random.Random, meaning: Meaning, negated: bool = False) -> str:
    """Write a sentence with this meaning, with a full stop.

    Wordings and the order of the adverbials are random; one sentence in ten is in the passive.
    """
    words = {slot: rng.choice(wordings) for slot, wordings in meaning.items()}
    who = " ".join(filter(None, ("the", words.get("quality"), words["who"])))
    what = " ".join(filter(None, ("the", words.get("look"), words["what"])))
    verb = " ".join(filter(None, ("never" if negated else "", words.get("manner"), words["verb"])))
    core = f"{who} {verb} {what}" if rng.random() < 0.9 else f"{what} was {verb} by {who}"
    adverbials = [words[slot] for slot in ("time", "cause") if slot in words]
    if "place" in words:
        adverbials.append(f"in the {words['place']}")
    rng.shuffle(adverbials)
    front = f"{adverbials.pop()}, " if adverbials and rng.random() < 0.2 else ""
    sentence = " ".join([front + core, *adverbials])
    return f"{sentence[0].upper()}{sentence[1:]}."


class Writer:
    """Writes the corpus, and no sentence twice, so that its files have no sentence in common."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._written: set[str] = set()

    def _say(self, meaning: Meaning, negated: bool = False) -> str:
        """Write a sentence with this meaning that has not been written before."""
        while (sentence := put_in_words(self._rng, meaning, negated)) in self._written:
            pass
        self._written.add(sentence)
        return sentence

    def _draw(self, scene: int | None = None) -> tuple[int, Meaning]:
        """Draw a scene, unless one is given, and a meaning of it."""
        scene = self._rng.randrange(len(SCENES)) if scene is None else scene
        return scene, draw_meaning(self._rng, scene)

    def _unlike(self, premise: Meaning, scene: int) -> Meaning:
        """Draw a meaning of the same scene whose verb and object are not those of the premise."""
        while True:
            other = self._draw(scene)[1]
            if other["verb"] != premise["verb"] and other["what"] != premise["what"]:
                return other

    def sentence(self) -> str:
        """Write an unlabelled sentence; one in twenty is negated."""
        return self._say(self._draw()[1], negated=self._rng.random() < 0.05)

    def triplet(self) -> tuple[str, str, str]:
        """Write a premise, a paraphrase that leaves some details out, and a contradiction.

        The contradiction is the negated premise or has another verb and another object.
        """
        scene, premise = self._draw()
        omitted = {slot for slot in OPTIONAL if self._rng.random() < 0.3}
        entailed = {slot: concept for slot, concept in premise.items() if slot not in omitted}
        negated = self._rng.random() < 0.3
        other = premise if negated else self._unlike(premise, scene)
        contradiction = blend(premise, other, {"verb", "what"})
        return self._say(premise), self._say(entailed), self._say(contradiction, negated)

    def pair(self) -> tuple[float, str, str]:
        """Write two sentences, and give their score from 0 to 5 (two decimals) before them.

        The second meaning is the first one with some slots, from none to all, as in another
        meaning. Half of the time, that is one of the same scene.
        """
        scene, first = self._draw()
        other = self._draw(scene if self._rng.random() < 0.5 else None)[1]
        slots = [slot for slot in SLOT_WEIGHTS if slot != "topic"]
        # Any number of slots is equally likely, so that the scores cover their whole range.
        changed = set(self._rng.sample(slots, self._rng.randint(0, len(slots))))
        second = blend(first, other, changed)
        return round(5 * similarity(first, second), 2), self._say(first), self._say(second)


def corpus(seed: int) -> dict[str, str]:
    """Write the whole corpus: name of a file -> its text."""
    writer = Writer(seed)
    texts = {}
    # Graded pairs first: more sentences or triplets would then not change dev and test.
    for name, count in (("dev.tsv", DEV_PAIR_COUNT), ("test.tsv", TEST_PAIR_COUNT)):
        pairs = (writer.pair() for _ in range(count))
        texts[name] = "".join(f"{score:.2f}\t{one}\t{two}\n" for score, one, two in pairs)
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("sent0", "sent1", "hard_neg"))
    rows.writerows(writer.triplet() for _ in range(TRIPLET_COUNT))
    texts["triplets.csv"] = table.getvalue()
    texts["sentences.txt"] = "".join(f"{writer.sentence()}\n" for _ in range(SENTENCE_COUNT))
    return texts
