// Prints the programs that pages show, as JSON by name, with the values that the JSON on its standard input has for them.
// tests/e2e/test_snippets.py runs them. A page that shows another program names it here.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const { origin, secret, version, baseModel, session, grpoN, served, webhookSecret, download } =
  JSON.parse(readFileSync(0, "utf8"));

async function page(path) {
  return (await runnerImport(`${root}src/${path}`, { root, configFile: false, logLevel: "error" }))
    .module;
}

const keys = await page("features/keys/key-snippets.ts");
const loop = await page("ui/loop-snippet.tsx");
const calls = await page("ui/call-snippets.ts");
const webhooks = await page("features/webhooks/receiver-snippet.ts");
const checkpoints = await page("features/sessions/checkpoints/download-script.ts");
const playground = await page("features/playground/programs.ts");
const { sdkProgram } = await page("features/sessions/detail/sdk-program.ts");
const { workerCommand } = await page("features/sessions/detail/queue-panel.tsx");
const spoken = {
  messages: [
    { role: "system", content: "Be brief." },
    { role: "user", content: "It's 3 + 4?" },
    { role: "assistant", content: "7\n" },
    { role: "user", content: "Sure?" },
  ],
  temperature: 0.5,
  max_tokens: 16,
};
const body = {
  model: served?.model,
  messages: [{ role: "user", content: "It's 3 + 4?" }],
  temperature: 0.5,
  max_tokens: 16,
};
const policy = playground.programsOf(
  { session: { id: session ?? "ses_none", kind: "episodes" } },
  spoken,
  origin,
);
const model = playground.programsOf(
  { session: { id: served?.id ?? "ses_none", kind: "serving" } },
  spoken,
  origin,
);
const outside = playground.programsOf(
  { outside: { baseUrl: served?.baseUrl ?? origin, model: served?.model ?? "" } },
  spoken,
  origin,
);
const options = { grpo_n: 2, tasks_per_batch: 2, max_context_length: 512, loss: "dapo" };

console.log(
  JSON.stringify({
    loop_shell: loop.shellSnippet(origin, secret, version),
    loop_new: loop.loopSnippet({ baseModel }),
    loop_attach: loop.loopSnippet({ sessionId: session ?? "ses_none", grpoN: grpoN ?? 8 }),
    server_variables: keys.serverVariables(origin, secret),
    openai: keys.openaiProgram(baseModel),
    curl: keys.curlProgram(baseModel),
    tinker_variables: keys.tinkerVariables(origin, secret),
    tinker: keys.tinkerProgram(baseModel),
    call_key: calls.keySnippet(served?.key ?? ""),
    call_curl: calls.curlSnippet(served?.baseUrl ?? origin, body),
    playground_curl: model.curl,
    playground_python: model.python,
    playground_policy: policy.python,
    outside_curl: outside.curl,
    outside_python: outside.python,
    asked_options: options,
    same_options: sdkProgram({ base_model: baseModel, config: options }, Object.keys(options)),
    worker: workerCommand(session ?? "ses_none", "plain"),
    download_command: download ? checkpoints.downloadCommand(session, download.checkpoint_id) : "",
    call_python: calls.pythonSnippet(served?.baseUrl ?? origin, body),
    webhook_secret: webhooks.secretSnippet(webhookSecret ?? ""),
    webhook_receiver: webhooks.RECEIVER_SNIPPET,
    download_script: download ? checkpoints.downloadScript(download) : "",
  }),
);
