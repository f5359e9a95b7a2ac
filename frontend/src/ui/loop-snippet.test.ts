import { expect, test } from "vitest";
import { loopSnippet, shellSnippet } from "./loop-snippet";

test("the pasted loop starts a session, or attaches to the one that is looked at", () => {
  expect(loopSnippet({ baseModel: "m" })).toContain('TinkerScript(base_model="m")');
  const attached = loopSnippet({ sessionId: "ses_1", grpoN: 4 });
  expect(attached).toContain('TinkerScript(session_id="ses_1")');
  expect(attached).toContain("GRPO_N = 10, 4");
});

test("the shell installs this server's client, and gets the address and the key that the SDK reads", () => {
  expect(shellSnippet("http://h:1", "k", "0.2.0").split("\n")).toEqual([
    'pip install "tinkerscript[openai] @ http://h:1/client/tinkerscript-0.2.0-py3-none-any.whl"',
    "export TINKERSCRIPT_BASE_URL=http://h:1",
    "export TINKERSCRIPT_API_KEY=k",
  ]);
});

test("the pasted loop names no package that an index does not have", () => {
  expect(loopSnippet({ baseModel: "m" })).not.toContain("pip install");
});
