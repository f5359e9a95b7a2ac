import { expect, test } from "vitest";
import { sdkProgram } from "./sdk-program";

const session = (config: object) =>
  ({ base_model: 'a "b"', config }) as unknown as Parameters<typeof sdkProgram>[0];

test("the options of a run are a program of Python", () => {
  const config = { grpo_n: 4, kl_stop: null, dynamic_sampling: true, loss: "dapo", seed: 0 };
  expect(sdkProgram(session(config), []).split("\n")).toEqual([
    "from tinkerscript import TinkerScript",
    "",
    String.raw`with TinkerScript("a \"b\"") as session:  # it ends with the block`,
    "    print(session.id)  # here comes your loop",
    "",
  ]);
  expect(sdkProgram(session(config), ["grpo_n", "kl_stop", "dynamic_sampling"])).toContain(
    String.raw`with TinkerScript("a \"b\"", grpo_n=4, kl_stop=None, dynamic_sampling=True) as session:`,
  );
});

test("many of them are one a line", () => {
  const config = {
    model_names: { "gpt-4o": "planner" },
    learning_rate: 0.000002,
    max_context_length: 4096,
    checkpoint_every_steps: 12,
  };
  expect(sdkProgram(session(config), Object.keys(config)).split("\n").slice(2, 8)).toEqual([
    "with TinkerScript(",
    String.raw`    "a \"b\"",`,
    '    model_names={"gpt-4o": "planner"},',
    "    learning_rate=0.000002,",
    "    max_context_length=4096,",
    "    checkpoint_every_steps=12,",
  ]);
});
