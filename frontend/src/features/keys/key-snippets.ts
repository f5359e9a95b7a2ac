// Programs that use a new key by other clients than this server's own. Each is whole: it starts a session and plays an episode.

/** The two variables that all programs but the Tinker client's read. */
export function serverVariables(origin: string, secret: string): string {
  return `export TINKERSCRIPT_BASE_URL=${origin}
export TINKERSCRIPT_API_KEY=${secret}`;
}

export function tinkerVariables(origin: string, secret: string): string {
  return `pip install tinker
export TINKER_BASE_URL=${origin}
export TINKER_API_KEY=tml-${secret}`;
}

/** A JSON string is a Python string. */
export function tinkerProgram(baseModel: string): string {
  return `import tinker

client = tinker.ServiceClient()  # reads both variables
training = client.create_lora_training_client(base_model=${JSON.stringify(baseModel)}, rank=8)
print(training.get_info())
`;
}

export function openaiProgram(baseModel: string): string {
  return `import os
import time

import httpx  # comes with openai
from openai import OpenAI

api = httpx.Client(
    base_url=os.environ["TINKERSCRIPT_BASE_URL"] + "/v1", timeout=60,
    headers={"Authorization": "Bearer " + os.environ["TINKERSCRIPT_API_KEY"]})

def post(path, **body):
    while (answer := api.post(path, json=body)).status_code == 503:  # the session is not up yet
        time.sleep(2)
    return answer.raise_for_status().json()

session = post("/sessions", base_model=${JSON.stringify(baseModel)})["id"]
for task in ["What is 3 + 4?"] * 8:
    episode = post(f"/sessions/{session}/episodes", task=task)
    client = OpenAI(base_url=episode["base_url"], api_key=episode["api_key"])
    answer = client.chat.completions.create(
        model=episode["model"], max_tokens=32, messages=[{"role": "user", "content": task}])
    reward = float("7" in answer.choices[0].message.content)
    post(f"/sessions/{session}/episodes/{episode['episode_id']}/end", output={"reward": reward})
    print(task, reward)
`;
}

export function curlProgram(baseModel: string): string {
  // In single quotes a shell reads everything as it is, but for a single quote.
  const quoted = (value: unknown) => `'${JSON.stringify(value).replaceAll("'", String.raw`'\''`)}'`;
  return `api() { curl -sS --fail -H "Authorization: Bearer $TINKERSCRIPT_API_KEY" -H "Content-Type: application/json" "$@"; }
SESSIONS=$TINKERSCRIPT_BASE_URL/v1/sessions

# A session, and an episode of it: where the model is, and a key for it. It is asked for again until the session is up.
SESSION=$(api $SESSIONS -d ${quoted({ base_model: baseModel })} | jq -r .id)
EPISODE=$(api --retry 30 $SESSIONS/$SESSION/episodes -d ${quoted({ task: "What is 3 + 4?" })})

# What your agent asks the model.
curl -sS $(jq -r .base_url <<< "$EPISODE")/chat/completions \\
  -H "Authorization: Bearer $(jq -r .api_key <<< "$EPISODE")" -H "Content-Type: application/json" \\
  -d ${quoted({ model: baseModel, max_tokens: 32, messages: [{ role: "user", content: "What is 3 + 4?" }] })}

# What it was worth.
api $SESSIONS/$SESSION/episodes/$(jq -r .episode_id <<< "$EPISODE")/end -d '{"output":{"reward":1}}'
`;
}
