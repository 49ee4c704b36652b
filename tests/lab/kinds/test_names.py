"""What may be a name, a key or a value."""

from __future__ import annotations

import pytest

from dds_lab.api import names


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns_label, ["a", "a-b", "0", "a" * 63], ["", "A", "a.b", "-a", "a-", "a" * 64, "a\n"]),
        (names.dns_subdomain, ["a", "a.b", "n1.example.com"], ["", "a..b", ".a", "a_b", "A", "x" * 254, "a\n"]),
        (
            names.qualified_name,
            ["a", "A.b_c", "example.com/Name"],
            ["", "/a", "a/", "a/b/c", "UP/x", "a b", "x" * 64, "x/" + "y" * 64],
        ),
        (names.label_value, ["", "true", "My_value.1"], ["not valid!", "-a", "a-", "v" * 64, "a\n"]),
        (names.c_identifier, ["memory", "_x", "a1"], ["", "1a", "a-b", "a.b", "ä"]),
        (names.semantic_version, ["1.2.3", "0.0.0", "1.0.0-rc.1+b5"], ["1.2", "v1.2.3", "01.2.3", "1.2.3-", ""]),
        (names.lower_uuid, ["00000000-0000-0000-0000-00000000000a"], ["", "x", "00000000-0000-0000-0000-00000000000A"]),
        (names.config_key, ["a", "a.b-c_D", ".a"], ["", ".", "..", "..a", "a/b", "k" * 254]),
        (names.condition_reason, ["Ready", "A_b,C:D"], ["", "1a", "a b", "a,"]),
        (names.path_segment, ["system:node", "a b"], [".", "..", "a/b", "a%b"]),
    ],
)
def test_syntaxes(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    assert [text for text in good if check(text)] == []
    assert [text for text in bad if not check(text)] == []


def test_words_are_a_real_servers() -> None:
    assert names.label_value("not valid!") == (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
        "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    )
