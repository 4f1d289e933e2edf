"""Writes goldens/detection.json: the twelve numbers of pycocotools' COCOeval for 50 random sets of detections. See README.md.

    detection.py [SEED]

Needs pycocotools. The sets are drawn from the seed by splitmix64 and are not stored: tests/runtime_measure/random_detections.cpp draws the
same ones. What is drawn is in eighths of a pixel and sixteenths of a score, so both sides hold the same numbers.
"""
import contextlib
import io
import json
import pathlib
import sys

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SETS = 50
MASK = (1 << 64) - 1


class Draws:
    """splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, count):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % count

    def one_in(self, count):
        return self.below(count) == 0


def draw_ids(draws, count):
    """Ids with gaps, in no order."""
    ids, last = [], 0
    for _ in range(count):
        last += 1 + draws.below(4)
        ids.append(last)
    shuffle(draws, ids)
    return ids


def shuffle(draws, rows):
    for i in range(len(rows) - 1, 0, -1):
        j = draws.below(i + 1)
        rows[i], rows[j] = rows[j], rows[i]


def draw_extent(draws):
    """Width and height: areas of exactly 32² and 96², small, medium and large ones, long and thin ones."""
    kind = draws.below(6)
    if kind == 0:
        return 32.0, 32.0
    if kind == 1:
        return 96.0, 96.0
    if kind == 2:
        return (1 + draws.below(256)) / 8, (1 + draws.below(256)) / 8
    if kind == 3:
        return 32 + draws.below(512) / 8, 32 + draws.below(512) / 8
    if kind == 4:
        return 96 + draws.below(1600) / 8, 96 + draws.below(1600) / 8
    return (1 + draws.below(64)) / 8, 200 + draws.below(800) / 8


def draw_box(draws):
    width, height = draw_extent(draws)
    return [draws.below(2400) / 8, draws.below(2400) / 8, width, height]


def draw_near(draws, box):
    """A detection of a box: itself, a part with an IoU about a threshold, or one that is moved."""
    kind = draws.below(4)
    if kind == 0:
        return list(box)
    if kind == 1:
        return [box[0], box[1], box[2] * (10 + draws.below(10)) / 20, box[3]]
    moved = [box[0] + (draws.below(33) - 16) / 8, box[1] + (draws.below(33) - 16) / 8]
    return moved + [box[2] + draws.below(17) / 8, box[3] + draws.below(17) / 8]


def draw_set(draws):
    """Annotations and results as COCO's files have them."""
    image_ids = draw_ids(draws, 1 + draws.below(12))
    category_ids = draw_ids(draws, 2 + draws.below(5))
    objects, found = [], []

    def detect(image, category, box):
        found.append({"image_id": image, "category_id": category, "bbox": box, "score": draws.below(17) / 16})

    def add_object(image, category, box, area, crowd):
        objects.append({"id": len(objects) + 1, "image_id": image, "category_id": category, "bbox": box, "area": area, "iscrowd": crowd})

    for image in image_ids:
        boxes = 0 if draws.one_in(4) else draws.below(12)
        for _ in range(boxes):
            twin = bool(objects) and draws.one_in(8)
            box = list(objects[-1]["bbox"]) if twin else draw_box(draws)
            category = category_ids[draws.below(len(category_ids) - 1)]  # none of the last
            area = box[2] * box[3] / (2 if draws.one_in(3) else 1)
            crowd = 1 if draws.one_in(8) else 0
            add_object(image, category, box, area, crowd)
            for _ in range(draws.below(4)):
                near = draw_near(draws, box)
                label = category_ids[draws.below(len(category_ids))] if draws.one_in(8) else category
                detect(image, label, near)
                if draws.one_in(6):
                    detect(image, label, list(near))
        if draws.one_in(2):  # a detection with equal IoU of two objects, and one of the two
            x, y = draw_box(draws)[:2]
            sides = [[x, y, 40.0, 10.0], [x + 10, y, 40.0, 10.0]]
            if draws.one_in(2):
                sides.reverse()
            for box in sides:
                add_object(image, category_ids[0], box, 400, 0)
            detect(image, category_ids[0], [x + 10, y, 30.0, 10.0])
            detect(image, category_ids[0], list(sides[draws.below(2)]))
        for _ in range(draws.below(8)):
            detect(image, category_ids[draws.below(len(category_ids))], draw_box(draws))
    detect(image_ids[0], category_ids[0], draw_box(draws))
    if draws.one_in(5):  # more than 100 of a category in an image
        for _ in range(130):
            box = objects[draws.below(len(objects))]["bbox"] if objects and draws.one_in(3) else draw_box(draws)
            detect(image_ids[0], category_ids[0], draw_near(draws, box))
    shuffle(draws, found)
    images = [{"id": id, "file_name": f"{id}.jpg", "width": 640, "height": 480} for id in image_ids]
    categories = [{"id": id, "name": f"category {id}"} for id in category_ids]
    return {"images": images, "annotations": objects, "categories": categories}, found


def evaluate(annotations, found):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = annotations
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(value) for value in evaluation.stats]


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 20260
    print(f"seed {seed}")
    draws, sets = Draws(seed), []
    for _ in range(SETS):
        annotations, found = draw_set(draws)
        counts = {"images": len(annotations["images"]), "objects": len(annotations["annotations"]), "detections": len(found)}
        sets.append({**counts, "values": evaluate(annotations, found)})
    rows = ",\n".join(json.dumps(row) for row in sets)
    file = pathlib.Path(__file__).parent / "goldens/detection.json"
    file.write_text(f'{{"seed": {seed}, "sets": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
