import { expect, test } from "vitest";
import { sdkLine } from "./sdk-line";

const session = (config: object) => ({ base_model: 'a "b"', config }) as unknown as Parameters<typeof sdkLine>[0];

test("the options of a run are a line of Python", () => {
  const config = { grpo_n: 4, kl_stop: null, dynamic_sampling: true, loss: "dapo", seed: 0 };
  expect(sdkLine(session(config), [])).toBe(String.raw`TinkerScript("a \"b\"")`);
  expect(sdkLine(session(config), ["grpo_n", "kl_stop", "dynamic_sampling", "loss"])).toBe(
    String.raw`TinkerScript("a \"b\"", grpo_n=4, kl_stop=None, dynamic_sampling=True, loss="dapo")`,
  );
});

test("many of them are one a line", () => {
  const config = { model_names: { "gpt-4o": "planner" }, learning_rate: 0.000002, max_context_length: 4096, checkpoint_every_steps: 12 };
  expect(sdkLine(session(config), Object.keys(config)).split("\n")).toEqual([
    "TinkerScript(",
    String.raw`    "a \"b\"",`,
    '    model_names={"gpt-4o": "planner"},',
    "    learning_rate=0.000002,",
    "    max_context_length=4096,",
    "    checkpoint_every_steps=12,",
    ")",
  ]);
});
