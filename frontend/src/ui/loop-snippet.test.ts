import { expect, test } from "vitest";
import { loopSnippet, shellSnippet } from "./loop-snippet";

test("the pasted loop starts a session, or attaches to the one that is looked at", () => {
  expect(loopSnippet({ baseModel: "m" })).toContain('TinkerScript(base_model="m")');
  const attached = loopSnippet({ sessionId: "ses_1", grpoN: 4 });
  expect(attached).toContain('TinkerScript(session_id="ses_1")');
  expect(attached).toContain("GRPO_N = 10, 4");
});

test("the shell gets the address and the key that the SDK reads", () => {
  expect(shellSnippet("http://h:1", "k")).toBe("export TINKERSCRIPT_BASE_URL=http://h:1\nexport TINKERSCRIPT_API_KEY=k");
});
