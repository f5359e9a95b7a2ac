import { expect, test } from "vitest";
import schema from "../../../api/session-config.json";
import { readTurn } from "../budget";
import { configFields, readForm, type OptionSchema } from "../config-fields";
import { isTrained, KEPT, startOf, withKept, withText } from "./run-again";

const fields = configFields(schema as unknown as OptionSchema);
const defaults = Object.fromEntries(fields.map((field) => [field.name, field.default]));

const run = {
  id: "ses_1",
  name: "first try",
  base_model: "m",
  config: {
    ...defaults,
    grpo_n: 4,
    learning_rate: 2e-6,
    max_steps: 3,
    loss: "dapo",
    model_names: { "gpt-4o": "planner" },
  },
  decided: [],
  priority: 2,
  budget: { steps: 5, wall_s: 5400, device_s: null },
} as unknown as Parameters<typeof startOf>[0];

test("another run is asked for with every option that this one had changed, and its turn and budget", () => {
  const start = startOf(run, fields);
  expect(start).toMatchObject({ baseModel: "m", name: "first try" });
  const { values, errors } = readForm(fields, start.texts);
  expect(errors).toEqual({});
  expect(withKept(values, start, start.texts)).toEqual({
    grpo_n: 4,
    learning_rate: 2e-6,
    max_steps: 3,
    loss: "dapo",
    model_names: { "gpt-4o": "planner" },
  });
  expect(readTurn(start.texts).values).toEqual({
    priority: 2,
    budget: { steps: 5, wall_s: 5400, device_s: null },
  });
});

test("the bounds that the old loss gave do not go with another loss, those that a person gave do", () => {
  const config = {
    ...run.config,
    loss: "gspo" as const,
    clip_low: 3e-4,
    clip_high: 0.4,
    normalize_advantage: true,
  };
  const start = startOf({ ...run, config, decided: ["clip_low", "normalize_advantage"] }, fields);
  const { values } = readForm(fields, { ...start.texts, loss: "grpo" });
  expect(values).toMatchObject({ clip_high: 0.4 });
  expect(values).not.toHaveProperty("clip_low");
  expect(values).not.toHaveProperty("normalize_advantage");
});

test("the rate that the base model gave does not go with another one", () => {
  const start = startOf({ ...run, decided: ["learning_rate"] }, fields);
  expect(readForm(fields, start.texts).values).not.toHaveProperty("learning_rate");
});

test("what is typed stands in the place of what was kept", () => {
  const start = startOf(run, fields);
  const texts = { ...start.texts, model_names: "any" };
  expect(withKept(readForm(fields, texts).values, start, texts)).toMatchObject({
    model_names: "any",
  });
});

test("what was kept is dropped by the choice of the default, and taken back", () => {
  const start = startOf(run, fields);
  const dropped = withText(start.texts, "model_names", "own");
  expect(withKept(readForm(fields, dropped).values, start, dropped)).not.toHaveProperty(
    "model_names",
  );
  const back = withText(dropped, "model_names", KEPT);
  expect(withKept(readForm(fields, back).values, start, back)).toHaveProperty("model_names", {
    "gpt-4o": "planner",
  });
});

test("a checkpoint stands in the base model's place, with the options of its run; a run that began from one begins there again", () => {
  expect(startOf(run, fields, "ckp_1")).toMatchObject({
    baseModel: "ckp_1",
    texts: { grpo_n: "4", loss: "dapo" },
  });
  const began = {
    ...run,
    started_from: {
      checkpoint_id: "ckp_2",
      session_id: "ses_0",
      kind: "state",
      step: 3,
      tinker_path: null,
    },
  } as typeof run;
  expect(startOf(began, fields).baseModel).toBe("ckp_2");
  expect(["ckp_1", "tinker://tnk_1:train:0/weights/a", "m"].map(isTrained)).toEqual([
    true,
    true,
    false,
  ]);
});

test("a run without a name of its own gives none away", () => {
  expect(startOf({ ...run, name: "ses_1" }, fields).name).toBe("");
});
