"""The JSON Schema of what the verbs with a verdict print with `--json`.

Every such result has `level`, `headline` and `notices`; the other keys
depend on the verb. Keys that are declared here keep their names and
types; others may be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonSchema = dict[str, Any]

SCHEMA_ADDRESS = "https://json-schema.org/draft/2020-12/schema"
_TEXT: JsonSchema = {"type": "string"}
_NUMBER: JsonSchema = {"type": "number"}
_NUMBER_OR_NULL: JsonSchema = {"type": ["number", "null"]}
_COUNT: JsonSchema = {"type": "integer", "minimum": 0}
_FLAG: JsonSchema = {"type": "boolean"}
_NAMES: JsonSchema = {"type": "array", "items": _TEXT}
_NUMBERS: JsonSchema = {"type": "array", "items": _NUMBER}


def _table(keys: Mapping[str, JsonSchema], **optional: JsonSchema) -> JsonSchema:
    """Declare an object with required and optional keys."""
    return {
        "type": "object",
        "properties": {**keys, **optional},
        "required": list(keys),
    }


def _list_of(entry: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": entry}


def _by_name(entry: JsonSchema) -> JsonSchema:
    """Declare an object whose keys are names of joints, logs or parameters."""
    return {"type": "object", "additionalProperties": entry}


_NOTICE = _table(
    {
        "rule": _TEXT,
        "level": {"enum": ["info", "warning", "error"]},
        "where": _TEXT,
        "text": _TEXT,
        "advice": _TEXT,
        "numbers": _by_name(_NUMBER),
    }
)
_VERDICT: dict[str, JsonSchema] = {
    "level": {"enum": ["ok", "warning", "error"]},
    "headline": _TEXT,
    "notices": _list_of({"$ref": "#/$defs/notice"}),
}
_VALIDATION = {
    **_VERDICT,
    "rows": _by_name(
        _table(
            {
                "rms": _NUMBER_OR_NULL,
                "relative": _NUMBER_OR_NULL,
                "relative_all": _NUMBER_OR_NULL,
                "share": _NUMBER_OR_NULL,
                "whiteness": _NUMBER_OR_NULL,
                "unit": _TEXT,
            }
        )
    ),
    "numerics": _FLAG,
    "predicts": {"enum": ["good", "fair", "poor", "not tested"]},
    "source": _TEXT,
}
_IDENTIFY = {
    **_VERDICT,
    "format": _COUNT,
    "robot": _TEXT,
    "estimator": _TEXT,
    "parameters": _list_of(
        _table(
            {
                "name": _TEXT,
                "value": _NUMBER,
                "std": _NUMBER,
                "unit": _TEXT,
                "information_over_noise": _NUMBER_OR_NULL,
                "std_by_source": _by_name(_NUMBER),
            }
        )
    ),
    "derived": _by_name(_table({"value": _NUMBER, "std": _NUMBER, "unit": _TEXT})),
    "uncertainty": _TEXT,
    "drive_gains": _by_name(_table({"value": _NUMBER}, std=_NUMBER)),
    "gain_units": _by_name(_TEXT),
    "payload": _by_name(_table({"value": _NUMBER, "std": _NUMBER})),
    "residual": _by_name(
        _table({"rms": _NUMBER, "relative": _NUMBER, "share": _NUMBER}, relative_all=_NUMBER)
    ),
    "validation": _table(_VALIDATION),
    "tied": _FLAG,
    "quality": _by_name(_by_name(_NUMBER)),
    "regrouping": _by_name(_TEXT),
    "logs": _by_name(_NAMES),
    "digests": _by_name(_TEXT),
}
_DIFFERENCE = _table(
    {
        "name": _TEXT,
        "unit": _TEXT,
        "result": _TEXT,
        "first": _NUMBER,
        "first_std": _NUMBER,
        "value": _NUMBER,
        "std": _NUMBER,
        "mismatch": _NUMBER,
        "formula": _TEXT,
        "p": _NUMBER,
        "p_corrected": _NUMBER,
        "differs": _FLAG,
    }
)
_COMPARE = {
    **_VERDICT,
    "results": _NAMES,
    "passed": _FLAG,
    "failures": _NAMES,
    "together": _by_name(_NUMBER_OR_NULL),
    "differences": _list_of(_DIFFERENCE),
    "errors": _by_name(_by_name(_NUMBER)),
}
_LOAD_PARAMETER = _table(
    {
        "name": _TEXT,
        "unit": _TEXT,
        "observed": _FLAG,
        "information": _NUMBER,
        "value": _NUMBER_OR_NULL,
        "std": _NUMBER_OR_NULL,
        "model_std": _NUMBER_OR_NULL,
        "interval": {"type": ["array", "null"], "items": _NUMBER},
    }
)
_PAYLOAD = {
    **_VERDICT,
    "robot": _TEXT,
    "samples": _COUNT,
    "parameters": _list_of(_LOAD_PARAMETER),
    "physical": _FLAG,
    "unobserved_combinations": _NAMES,
    "observed_combinations": _list_of(
        _table({"text": _TEXT, "value": _NUMBER, "std": _NUMBER, "unit": _TEXT})
    ),
    "changes": _list_of(
        _table(
            {
                "log": _TEXT,
                "time": _NUMBER,
                "within": _NUMBER,
                "before": _list_of(_LOAD_PARAMETER),
                "after": _list_of(_LOAD_PARAMETER),
            }
        )
    ),
    "history": _by_name(_NUMBERS),
}
_ALERT = _table({"robot": _TEXT, "kind": _TEXT, "text": _TEXT, "advice": _TEXT})
_FLEET = {
    **_VERDICT,
    "kind": _TEXT,
    "robots": _COUNT,
    "false_alarms": _NUMBER,
    "alerts": _list_of(_ALERT),
    "common": _list_of(
        _table(
            {
                "parameter": _TEXT,
                "unit": _TEXT,
                "value": _NUMBER,
                "std": _NUMBER,
                "between_robots": _NUMBER,
                "observability": _TEXT,
            }
        )
    ),
}
_CHECK = {
    **_VERDICT,
    "robot": _TEXT,
    "title": _TEXT,
    "degrees_of_freedom": _COUNT,
    "actuated": _NAMES,
    "coordinates": _NAMES,
    "standard_parameters": _COUNT,
    "base_parameters": _table(
        {
            "count": _COUNT,
            "names": _NAMES,
            "regrouping": _by_name(_TEXT),
            "singular_value_gap": _NUMBER_OR_NULL,
            "finer_count": _NUMBER_OR_NULL,
        }
    ),
}
_CHECK_MOTION = {
    **_VERDICT,
    "robot": _TEXT,
    "source": _TEXT,
    "samples": _COUNT,
    "periods": _COUNT,
    "noise": _by_name(_NUMBER),
    "condition_number": _NUMBER_OR_NULL,
    "parameters": _list_of(
        _table({"name": _TEXT, "unit": _TEXT, "value": _NUMBER, "std": _NUMBER_OR_NULL})
    ),
    "weak": _list_of(_table({"relative": _NUMBER, "direction": _TEXT})),
    "limits": _list_of({"type": "object"}),
}
_DIAGNOSE = {
    **_VERDICT,
    "robot": _TEXT,
    "error": _NUMBER_OR_NULL,
    "faults": _list_of({"type": "object"}),
    "limits": _list_of({"type": "object"}),
}
RESULT_KEYS: Mapping[str, Mapping[str, JsonSchema]] = {
    "identify": _IDENTIFY,
    "validate": _VALIDATION,
    "compare": _COMPARE,
    "payload": _PAYLOAD,
    "fleet": _FLEET,
    "check": _CHECK,
    "check_motion": _CHECK_MOTION,
    "diagnose": _DIAGNOSE,
}


def result_schema() -> JsonSchema:
    """Return the JSON Schema of results: a definition for each verb, any of which is valid."""
    definitions = {"notice": _NOTICE, "verdict": _table(_VERDICT)}
    for verb, keys in RESULT_KEYS.items():
        definitions[verb] = _table(keys, settings={"type": "object"})
    return {
        "$schema": SCHEMA_ADDRESS,
        "title": "Results of Gough",
        "description": "Results of the verbs with a verdict as JSON, by verb in $defs.",
        "anyOf": [{"$ref": f"#/$defs/{verb}"} for verb in RESULT_KEYS],
        "$defs": definitions,
    }
