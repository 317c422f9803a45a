"""Reading untrusted YAML and JSON files."""

from __future__ import annotations

from pathlib import Path

import pytest

from koordsched.manifests.documents import InputDocument, InputError, expand, parse_documents, read_documents


def values(text: str, name: str = "f.yaml") -> list[object]:
    return [document.value for document in parse_documents(name, text.encode())]


def problem(data: bytes, name: str = "f.yaml") -> str:
    with pytest.raises(InputError) as raised:
        parse_documents(name, data)
    return str(raised.value)


def test_yaml_documents_are_numbered_from_one_and_empty_ones_are_left_out_but_counted() -> None:
    documents = parse_documents("f.yaml", b"a: 1\n---\n# nothing\n---\nb: 2\n")
    assert documents == [InputDocument("f.yaml", 1, {"a": 1}), InputDocument("f.yaml", 3, {"b": 2})]
    assert documents[1].origin == "f.yaml: document 3"


def test_plain_scalars_mean_what_kubectl_makes_of_them() -> None:
    text = "{a: yes, b: off, c: ~, d: 0x10, e: 0o17, f: 1.5, g: 12:30, h: 2026-01-01, i: 1Gi, j: '5', k: -3, l: 1e3, m: .5, y: n}"
    assert values(f"x: {text}")[0] == {
        "x": {"a": True, "b": False, "c": None, "d": 16, "e": 15, "f": 1.5, "g": "12:30", "h": "2026-01-01", "i": "1Gi", "j": "5", "k": -3}
        | {"l": 1000.0, "m": 0.5, "y": "n"}
    }


def test_a_number_that_json_cannot_hold_stays_text() -> None:
    assert values("a: 1e999") == [{"a": "1e999"}]


def test_keys_are_text_as_written() -> None:
    assert values("1: a\ntrue: b\nnull: c") == [{"1": "a", "true": "b", "null": "c"}]


def test_aliases_and_merge_keys_are_unfolded_and_own_keys_win() -> None:
    assert values("base: &b {x: 1, y: 2}\nmade:\n  <<: *b\n  y: 3\nlist: [*b]\n") == [
        {"base": {"x": 1, "y": 2}, "made": {"x": 1, "y": 3}, "list": [{"x": 1, "y": 2}]}
    ]


def test_a_repeated_yaml_key_is_refused_with_its_line() -> None:
    assert problem(b"a: 1\n---\nb: 1\nc: 2\nb: 3\n") == "f.yaml: document 2: line 5: key 'b' is given twice in one map"


def test_a_repeated_json_key_is_refused() -> None:
    assert problem(b'{"a": {"b": 1, "b": 2}}', "f.json") == "f.json: document 1: key 'b' is given twice in one object"


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert problem("\n".join(lines).encode()) == "f.yaml: document 1: line 6: its aliases unfold to more than 1000000 values"


def test_an_alias_into_itself_is_refused() -> None:
    assert problem(b"a: &a [*a]") == "f.yaml: document 1: line 1: alias *a names no anchor above it"


@pytest.mark.parametrize("data", [b"[" * 100_000, b"{a: " * 100_000, b"- " * 5_000])
def test_yaml_without_end_in_depth_is_refused(data: bytes) -> None:
    assert problem(data) == "f.yaml: document 1: line 1: nested deeper than 100 levels"


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [101, 100_000])
def test_json_without_end_in_depth_is_refused(opening: bytes, depth: int) -> None:
    closing = b"]" if opening == b"[" else b"}"
    assert problem(opening * depth + b"1" + closing * depth, "f.json") == "f.json: document 1: nested deeper than 100 levels"


def test_a_hundred_levels_are_read() -> None:
    assert len(values("[" * 100 + "]" * 100)) == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: \xff", "f.yaml: byte 3: b'\\xff': not UTF-8 text"),
        (b"a: b\x00", "f.yaml: document 1: character 4: not YAML: control characters are not allowed"),
        (b"a: [1\n", "f.yaml: document 1: line 2: not YAML: did not find expected ',' or ']'"),
        (b"a: 1\n---\nb: *none\n", "f.yaml: document 2: line 3: alias *none names no anchor above it"),
        (b"? [a]\n: b", "f.yaml: document 1: line 1: a key must be a plain text, not a map or a list"),
        (b"a: &x 1\n*x : 2", "f.yaml: document 1: line 2: a key must be a plain text, not an alias"),
        (
            b"a: !!python/name:os.system x",
            "f.yaml: document 1: line 1: 'x' cannot be read with tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        (b"a: !thing {b: 1}", "f.yaml: document 1: line 1: tag '!thing' is not supported"),
        (b"a: !!int x", "f.yaml: document 1: line 1: 'x' cannot be read with tag 'tag:yaml.org,2002:int'"),
        (b"<<: 1", "f.yaml: document 1: line 1: what << merges must be a map or a list of maps"),
    ],
)
def test_bad_yaml_is_named_with_file_document_and_line(data: bytes, expected: str) -> None:
    assert problem(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": 1} {"b"', "f.json: document 2: line 1: not JSON: Expecting ':' delimiter"),
        (b'{"a": NaN}', "f.json: document 1: NaN: not a JSON number"),
        (b'{"a": ["\\uD83d"]}', "f.json: document 1: a text holds half of a surrogate pair (\\ud800 to \\udfff alone)"),
        (b'\n{"a": tru}', "f.json: document 1: line 2: not JSON: Expecting value"),
    ],
)
def test_bad_json_is_named_with_file_document_and_line(data: bytes, expected: str) -> None:
    assert problem(data, "f.json") == expected


def test_explicit_tags_of_the_standard_types_are_read() -> None:
    assert values("a: !!str 5\nb: !!int '5'\nc: !!float 1\nd: !!map {e: !!seq [!!bool yes]}") == [
        {"a": "5", "b": 5, "c": 1, "d": {"e": [True]}}
    ]


def test_json_documents_may_stand_one_after_the_other() -> None:
    assert values('{"a": 1}\n\n{"b": [2.5, null, true]}', "f.json") == [{"a": 1}, {"b": [2.5, None, True]}]


def test_surrogate_pairs_are_one_character() -> None:
    assert values('{"a": "\\ud83d\\ude00"}', "f.json") == [{"a": "\U0001f600"}]


def test_yaml_in_flow_style_is_read_although_it_begins_like_json() -> None:
    assert values("{a: 1}") == [{"a": 1}]


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_documents("f", b"\xef\xbb\xbf{}") == [InputDocument("f", 1, {})]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file or directory"):
        read_documents(str(tmp_path / "none.yaml"))


def test_a_directory_stands_for_the_yaml_and_json_files_below_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.yaml", "a.yml", "sub/c.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    assert expand([str(tmp_path), "-"]) == [*(str(tmp_path / name) for name in ("a.yml", "b.yaml", "sub/c.json")), "-"]


def test_a_directory_without_any_input_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file in this directory ends in \.yaml, \.yml, \.json"):
        expand([str(tmp_path)])
