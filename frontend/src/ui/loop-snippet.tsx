// The loop that a new user pastes: two variables to set and a program that trains.
import { useQuery } from "@tanstack/react-query";
import { serverQuery } from "../api/server";
import { CopyBlock } from "./copy";

export function shellSnippet(origin: string, secret: string, version: string): string {
  // The whole name of the file: pip refuses every shorter one.
  const wheel = `${origin}/client/tinkerscript-${version}-py3-none-any.whl`;
  return `pip install "tinkerscript[openai] @ ${wheel}"
export TINKERSCRIPT_BASE_URL=${origin}
export TINKERSCRIPT_API_KEY=${secret}`;
}

/** What the loop trains: a new session on a base model, or one that waits for it. */
export type Target = { baseModel: string } | { sessionId: string; grpoN: number };

const DEFAULT_GRPO_N = 8;

export function loopSnippet(target: Target): string {
  const attach = "sessionId" in target;
  const argument = attach
    ? `session_id=${JSON.stringify(target.sessionId)}`
    : `base_model=${JSON.stringify(target.baseModel)}`;
  return `from tinkerscript import TinkerScript

TASKS = ["3 + 4", "6 + 1", "2 + 5", "5 + 2"]
NUM_EPOCH, GRPO_N = 10, ${String(attach ? target.grpoN : DEFAULT_GRPO_N)}  # so many attempts at a task are compared with each other

# Your agent: any code that calls an OpenAI-compatible model. It returns the reward.
def run_agent(task, episode):
    answer = episode.openai().chat.completions.create(
        model=episode.model, max_tokens=64,
        messages=[{"role": "user", "content": task + "? Answer with a number."}])
    return float("7" in answer.choices[0].message.content)

with TinkerScript(${argument}) as session:  # the session ends with the block
    for epoch in range(NUM_EPOCH):
        for task in TASKS:
            for attempt in range(GRPO_N):
                with session.begin_episode() as episode:  # what raises here abandons the episode
                    reward = run_agent(task, episode)
                    session.end_episode(reward)
                print(f"{epoch}-{task}-run:{attempt}-{reward}")
    print(session.download_tuned_model())
`;
}

/** `secret` is null where the key is not at hand: keys are shown once. */
export function LoopSnippet({ secret, target }: { secret: string | null; target: Target }) {
  const server = useQuery(serverQuery);
  const version = server.data?.version ?? "<version of this server>";
  return (
    <div className="space-y-3">
      <CopyBlock
        label="shell"
        text={shellSnippet(location.origin, secret ?? "<your API key>", version)}
      />
      <CopyBlock label="train.py" text={loopSnippet(target)} />
    </div>
  );
}
