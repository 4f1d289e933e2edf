"""Event files by their format alone, with nothing but Python: framing, checksums, and the fields of the messages that are tested.

Knows no code of the program: the polynomial and the field numbers are those of TFRecord and of TensorBoard's event.proto,
summary.proto and plugin_data.proto.
"""
import pathlib
import struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The bytes of each record; AssertionError where one is not whole or not sound."""
    while data:
        head, sum_of_head = data[:8], struct.unpack("<I", data[8:12])[0]
        length = struct.unpack("<Q", head)[0]
        assert masked_crc(head) == sum_of_head, "the checksum of a length"
        body = data[12:12 + length]
        assert len(body) == length, "a record that is not whole"
        assert masked_crc(body) == struct.unpack("<I", data[12 + length:16 + length])[0], "the checksum of a record"
        yield body
        data = data[16 + length:]


def fields(data):
    """A message as {number: [value]}: whole numbers, bytes, or 4 and 8 raw bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value = data[at:at + size]
            assert len(value) == size
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def double(raw):
    return struct.unpack("<d", raw)[0]


def doubles(raw):
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


class Events:
    """What the event files of a folder hold, in the order in which TensorBoard reads them."""

    def __init__(self, folder):
        self.scalars, self.images, self.histograms, self.hparams = {}, {}, {}, {}
        self.graphs, self.starts, self.ends = [], [], 0
        self.files = sorted(file for file in pathlib.Path(folder).iterdir() if "tfevents" in file.name)
        for file in self.files:
            for number, record in enumerate(records(file.read_bytes())):
                event = fields(record)
                assert double(event[1][0]) > 1.6e9, "a time before 2020"
                assert (event.get(3) == [b"brain.Event:2"]) == (number == 0), "the version is the first event's alone"
                self.read(event)

    def read(self, event):
        step = event.get(2, [0])[0]
        if 7 in event:
            assert fields(event[7][0]) == {1: [1]}
            self.starts.append(step)
        self.graphs += event.get(4, [])
        for summary in event.get(5, []):
            for value in fields(summary).get(1, []):
                self.value(step, fields(value))

    def value(self, step, value):
        tag = value[1][0].decode()
        if 2 in value:
            self.scalars.setdefault(tag, []).append((step, struct.unpack("<f", value[2][0])[0]))
        elif 4 in value:
            image = fields(value[4][0])
            self.images.setdefault(tag, []).append((step, (image[1][0], image[2][0], image[3][0]), image[4][0]))
        elif 5 in value:
            self.histograms.setdefault(tag, []).append((step, fields(value[5][0])))
        else:
            plugin = fields(fields(value[9][0])[1][0])
            assert plugin[1] == [b"hparams"]
            self.session(tag, fields(plugin[2][0]))

    def session(self, tag, data):
        if tag == "_hparams_/session_end_info":
            self.ends += 1
            return
        assert tag == "_hparams_/session_start_info"
        for entry in fields(data[3][0])[1]:
            pair = fields(entry)
            value = fields(pair[2][0])
            self.hparams[pair[1][0].decode()] = (double(value[2][0]) if 2 in value else value[3][0].decode() if 3 in value
                                                 else bool(value[4][0]))
