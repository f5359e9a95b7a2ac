import { expect, test } from "vitest";
import schema from "../../api/session-config.json";
import {
  boundsText,
  byPath,
  configFields,
  nested,
  defaultText,
  parseField,
  readForm,
  type ConfigField,
  type OptionSchema,
} from "./config-fields";
import { advancedGroups, MAIN_GROUPS } from "./new/config-layout";

const fields = configFields(schema as unknown as OptionSchema);

function field(name: string): ConfigField {
  const found = fields.find((one) => one.name === name);
  if (!found) throw new Error(`no option ${name}`);
  return found;
}

test("every option of the schema stands in the form exactly once, and nothing else does", () => {
  const shown = [...MAIN_GROUPS, ...advancedGroups(fields)].flatMap((group) => group.names);
  expect([...shown].sort()).toEqual(fields.map((one) => one.name).sort());
});

test("every default passes its own check", () => {
  for (const one of fields)
    expect(parseField(one, defaultText(one)), one.name).toEqual({ ok: true, value: one.default });
});

test("an untouched form sends no option at all", () => {
  expect(readForm(fields, {})).toEqual({ values: {}, errors: {} });
});

test("what is out of bounds is refused with the bounds", () => {
  expect(parseField(field("grpo_n"), "1")).toEqual({ ok: false, error: "Must be 2 to 256." });
  expect(parseField(field("learning_rate"), "0")).toEqual({
    ok: false,
    error: "Must be over 0, at most 0.01.",
  });
  expect(parseField(field("learning_rate"), "1e-5")).toEqual({ ok: true, value: 1e-5 });
});

test("what is not a number of the right kind is refused", () => {
  expect(parseField(field("tasks_per_batch"), "2.5").ok).toBe(false);
  expect(parseField(field("tasks_per_batch"), "NaN").ok).toBe(false);
  expect(parseField(field("tasks_per_batch"), "").ok).toBe(false);
});

test("a name is taken as it was typed, where it can be one", () => {
  expect(parseField(field("place"), " h100x8 ")).toEqual({ ok: true, value: "h100x8" });
  expect(parseField(field("place"), "").ok).toBe(false);
  expect(parseField(field("place"), "H100 x8").ok).toBe(false);
});

test("an empty limit means none, and a choice keeps its type", () => {
  expect(parseField(field("max_steps"), "")).toEqual({ ok: true, value: null });
  expect(parseField(field("zero_stage"), "3")).toEqual({ ok: true, value: 3 });
  expect(parseField(field("zero_stage"), "4").ok).toBe(false);
});

test("only changed options are sent, wrong ones by name", () => {
  expect(readForm(fields, { grpo_n: "4", seed: "0", temperature: "9" })).toEqual({
    values: { grpo_n: 4 },
    errors: { temperature: "Must be 0 to 2." },
  });
});

test("the fields of an option that is an object have their own inputs, and are sent as one object", () => {
  const { values } = readForm(fields, {
    "engine_correction.weight": "sequence",
    "engine_correction.veto": "1e-4",
    grpo_n: "4",
  });
  expect(nested(values)).toEqual({
    grpo_n: 4,
    engine_correction: { weight: "sequence", veto: 1e-4 },
  });
  expect(byPath({ grpo_n: 4, engine_correction: { weight: "sequence" } }, fields)).toEqual({
    grpo_n: 4,
    "engine_correction.weight": "sequence",
  });
});

test("bounds read as words", () => {
  expect(boundsText(field("max_steps"))).toBe("at least 1");
  expect(boundsText(field("clip_low"))).toBe("over 0, below 1");
  expect(boundsText(field("loss"))).toBe("");
  expect(boundsText(field("seed"))).toBe("at least 0");
});
