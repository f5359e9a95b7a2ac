// Programs that use a new key by other clients than this server's own. Each is whole: it starts a session, trains a step or
// a few, and ends what it started. tests/e2e/test_snippets.py runs each of them as it is shown.
import { quoted } from "../../ui/call-snippets";

/** The attempts at one task that are compared with each other. One such group is a step of these sessions. */
const GRPO_N = 8;
const ONE_GROUP = { grpo_n: GRPO_N, tasks_per_batch: 1 };

/** The two variables that all programs but the Tinker client's read. */
export function serverVariables(origin: string, secret: string): string {
  return `export TINKERSCRIPT_BASE_URL=${origin}
export TINKERSCRIPT_API_KEY=${secret}`;
}

/** A key reads the same for each client: it begins with `tml-`, as the Tinker client wants it. */
export function tinkerVariables(origin: string, secret: string): string {
  return `pip install tinker
export TINKER_BASE_URL=${origin}
export TINKER_API_KEY=${secret}`;
}

/** A JSON string is a Python string. */
export function tinkerProgram(baseModel: string): string {
  return `import numpy as np
import tinker
from tinker import types

TOKENS = [5, 6, 7, 8]  # what it learns to say, as ids of the model's tokenizer

tokens, weights = np.array(TOKENS[1:], dtype=np.int64), np.ones(len(TOKENS) - 1, dtype=np.float32)
datum = types.Datum(
    model_input=types.ModelInput.from_ints(TOKENS[:-1]),
    loss_fn_inputs={
        "target_tokens": types.TensorData.from_numpy(tokens), "weights": types.TensorData.from_numpy(weights)})

with tinker.ServiceClient() as client:  # reads both variables; its session ends with the block
    training = client.create_lora_training_client(base_model=${JSON.stringify(baseModel)}, rank=8).result()
    for step in range(3):
        done = training.forward_backward([datum], "cross_entropy")
        training.optim_step(types.AdamParams(learning_rate=1e-3)).result()
        print(f"step {step + 1}: loss", done.result().metrics["loss:sum"])
    print(training.save_weights_for_sampler("first").result().path)
`;
}

export function openaiProgram(baseModel: string): string {
  return `import json
import os
import time
import urllib.error
import urllib.request

from openai import OpenAI

API = os.environ["TINKERSCRIPT_BASE_URL"] + "/v1"
HEADERS = {"Authorization": "Bearer " + os.environ["TINKERSCRIPT_API_KEY"], "Content-Type": "application/json"}

def api(path, body=None):
    request = urllib.request.Request(API + path, None if body is None else json.dumps(body).encode(), HEADERS)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:  # 503: the session is not up yet
                raise SystemExit(f"{path}: {error.code} {error.read().decode()}")
            time.sleep(2)

# ${String(GRPO_N)} attempts at one task are compared with each other, and make a step of this session.
TASK, GRPO_N = "What is 3 + 4?", ${String(GRPO_N)}
config = {"grpo_n": GRPO_N, "tasks_per_batch": 1}
session = api("/sessions", {"base_model": ${JSON.stringify(baseModel)}, "config": config})["id"]
rewards = []
try:
    for attempt in range(GRPO_N):
        episode = api(f"/sessions/{session}/episodes", {"task": TASK})
        with OpenAI(base_url=episode["base_url"], api_key=episode["api_key"]) as client:
            answer = client.chat.completions.create(
                model=episode["model"], max_tokens=32, messages=[{"role": "user", "content": TASK}])
        said = answer.choices[0].message.content
        reward = float("7" in said) - len(said) / 1000  # right is good, and short is better
        api(f"/sessions/{session}/episodes/{episode['episode_id']}/end", {"output": {"reward": reward}})
        print(attempt, reward, repr(said))
        rewards.append(reward)
    if len(set(rewards)) == 1:
        raise SystemExit("all rewards are equal: nothing can be learned from them")
    for _ in range(300):
        view = api(f"/sessions/{session}")
        if view["policy_version"] > 0:
            break
        time.sleep(2)
    print("steps trained:", view["policy_version"])
finally:
    api(f"/sessions/{session}/stop", {})  # it would hold its runtime
`;
}

export function curlProgram(baseModel: string): string {
  const json = (value: unknown) => quoted(JSON.stringify(value));
  return `#!/bin/bash
# Needs curl and jq. Run it as \`bash train.sh\`: its session ends with it.
set -eo pipefail
api() { curl -sS --fail-with-body -H "Authorization: Bearer $TINKERSCRIPT_API_KEY" -H "Content-Type: application/json" "$@"; }
SESSIONS=$TINKERSCRIPT_BASE_URL/v1/sessions

# ${String(GRPO_N)} attempts at one task are compared with each other, and make a step of this session.
SESSION=$(api $SESSIONS -d ${json({ base_model: baseModel, config: ONE_GROUP })} | jq -r .id)
trap 'api -o /dev/null -X POST $SESSIONS/$SESSION/stop' EXIT

for ATTEMPT in ${Array.from({ length: GRPO_N }, (_, number) => number + 1).join(" ")}; do
  # Where the model is, and a key for it. It is asked for again until the session is up: the last answer counts.
  EPISODE=$(api --retry 30 $SESSIONS/$SESSION/episodes -d ${json({ task: "What is 3 + 4?" })} | jq -cs last)

  # What your agent asks the model.
  ANSWER=$(curl -sS --fail-with-body $(jq -r .base_url <<< "$EPISODE")/chat/completions \\
    -H "Authorization: Bearer $(jq -r .api_key <<< "$EPISODE")" -H "Content-Type: application/json" \\
    -d ${json({ model: baseModel, max_tokens: 32, messages: [{ role: "user", content: "What is 3 + 4?" }] })} \\
    | jq -r '.choices[0].message.content')

  # What it was worth: right is good, and short is better.
  REWARD=$(jq -n --arg said "$ANSWER" '(if $said | contains("7") then 1 else 0 end) - ($said | length) / 1000')
  api -o /dev/null $SESSIONS/$SESSION/episodes/$(jq -r .episode_id <<< "$EPISODE")/end \\
    -d '{"output":{"reward":'$REWARD'}}'
  echo "$ATTEMPT $REWARD $ANSWER"
  REWARDS="$REWARDS$REWARD\\n"
done
if [ "$(printf "$REWARDS" | sort -u | wc -l)" = 1 ]; then
  echo "all rewards are equal: nothing can be learned from them"
  exit 1
fi

for WAIT in $(seq 300); do
  STEPS=$(api $SESSIONS/$SESSION | jq .policy_version)
  if [ "$STEPS" -gt 0 ]; then break; fi
  sleep 2
done
echo "steps trained: $STEPS"
`;
}
