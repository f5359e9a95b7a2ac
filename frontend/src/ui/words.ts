// What each word of reinforcement learning means here, and when its number is bad.

interface WordEntry {
  name: string;
  what: string;
  /** When to look into it; empty: it is neither good nor bad. */
  bad: string;
}

export const WORDS = {
  reward: {
    name: "Reward",
    what: "What your program gave an episode: the number that training raises. A point is the mean over the episodes of a step.",
    bad: "It falls, or stays flat for many steps. A rise in training without one in held-out evaluations is memory or a hole in the grader.",
  },
  episode: {
    name: "Episode",
    what: "One run of your agent on one task, from the first question to the reward at its end.",
    bad: "",
  },
  task: {
    name: "Task",
    what: "What the agent is asked to do. Episodes of one task are compared with each other.",
    bad: "The same few tasks again and again: the model learns them by heart.",
  },
  step: {
    name: "Step",
    what: "One change of the model’s weights, made from the episodes of one batch.",
    bad: "Steps are skipped or refused: nothing was learned from their episodes.",
  },
  call: {
    name: "Call",
    what: "One request of the agent to the model, with its answer. An episode has one or many.",
    bad: "",
  },
  batch: { name: "Batch", what: "The groups of episodes that go into one step together.", bad: "" },
  runtime: {
    name: "Runtime",
    what: "The process that serves one session: an engine that answers calls, and a trainer that changes the weights.",
    bad: "",
  },
  token: {
    name: "Token",
    what: "A piece of text as the model reads and writes it: about four letters of English.",
    bad: "",
  },
  lora: {
    name: "LoRA and its rank",
    what: "Small added matrices are trained in place of all weights. The rank is their width: the higher, the more can be learned.",
    bad: "The loss stops early: the rank is too low for the task.",
  },
  checkpoint: {
    name: "Checkpoint",
    what: "Weights that were kept. From a state training goes on; a model is a folder to download and serve.",
    bad: "None was kept: what was trained since the last one is lost with its machine.",
  },
  evaluation: {
    name: "Evaluation",
    what: "Held-out tasks that are played and never trained, to see what the model learned for tasks that it has not seen.",
    bad: "It falls while the reward of training rises: the model learns the training tasks by heart.",
  },
  spread: {
    name: "Spread",
    what: "How far rewards lie from their mean: their standard deviation.",
    bad: "Near zero: episodes of a group have equal rewards, and there is nothing to learn from.",
  },
  advantage: {
    name: "Advantage",
    what: "How much better an episode did than the others of its group. Tokens of episodes above the mean are made more likely, those below less.",
    bad: "Zero everywhere: the rewards of the group are equal.",
  },
  ratio: {
    name: "Ratio",
    what: "How many times as likely the trainer finds a sampled token as the engine did: 1 is equally likely.",
    bad: "Far from 1 for many tokens: answers are too old, or engine and trainer differ.",
  },
  loss_part: {
    name: "Part of the loss",
    what: "What one token adds to the loss: its advantage times its ratio. The share is beside all tokens of the episode.",
    bad: "A few tokens have nearly all of it: the rest of the answer hardly counts.",
  },
  loss: {
    name: "Loss",
    what: "What the optimizer lowers. In reinforcement learning it is a means and no score: near zero and noisy is normal.",
    bad: "Not a number, or steps with values many times the usual. In supervised training: it does not fall.",
  },
  kl_engine: {
    name: "KL engine to trainer",
    what: "How differently the engine that samples and the trainer see the same tokens. Rounding alone makes it small, not zero.",
    bad: "Above about 0.01, or rising: what is trained is not what was sampled. A higher precision or a lower max_staleness helps.",
  },
  gap: {
    name: "Gap of engine and trainer",
    what: "How far the engine’s and the trainer’s log-probabilities of the same sampled tokens lie apart, in nats. Rounding alone gives a few hundredths.",
    bad: "The mean rises over steps, or more than a few tokens of ten thousand are a whole nat apart.",
  },
  left_out: {
    name: "Tokens left out for their gap",
    what: "Tokens that are not trained because engine and trainer differ too much on them.",
    bad: "It grows: a growing part of the answers teaches nothing.",
  },
  repeated: {
    name: "Repeated prefixes",
    what: "Tokens of shared beginnings that the trainer walked more than once, because the model cannot share them.",
    bad: "",
  },
  kl_step: {
    name: "KL within the step",
    what: "How far one step moved the policy, on the step’s own tokens (the k3 estimate).",
    bad: "Sudden peaks: the learning rate is too high, or a few episodes weigh too much.",
  },
  kl_reference: {
    name: "KL to the reference",
    what: "How far the policy is from the model that the KL term holds it near, per token (the k3 estimate).",
    bad: "It rises without end while the reward does not. A higher kl_coef pulls harder, a lower one lets go.",
  },
  entropy: {
    name: "Entropy",
    what: "How undecided the policy is about the next token, in nats. It falls while it learns.",
    bad: "It drops to nearly zero within a few steps: the policy says the same each time and finds nothing new. Or it explodes: answers become noise.",
  },
  expert_load: {
    name: "Expert load",
    what: "Tokens of a layer's busiest expert over the mean of its experts, as the mean of the layers.",
    bad: "Far above what the base began with: few experts do all the work.",
  },
  router_entropy: {
    name: "Entropy of the routers",
    what: "How undecided the routers of a mixture are about the experts of a token, in nats.",
    bad: "It falls steadily: the routers choose the same experts for every token.",
  },
  routing_differs: {
    name: "Replayed experts",
    what: "The share of the experts that sampled tokens which the trainer's own routers would not have chosen. The trainer replays them.",
    bad: "Above a few percent with fresh samples: engine and trainer compute this model differently.",
  },
  entropy_weight: {
    name: "Weight of the entropy",
    what: "How much the loss rewards undecided answers (entropy_coef).",
    bad: "",
  },
  kl_weight: {
    name: "Weight of the KL term",
    what: "How much the loss or the reward holds the policy near its reference (kl_coef). It can change while a run trains.",
    bad: "",
  },
  length: {
    name: "Answer length",
    what: "Mean tokens of an answer.",
    bad: "It grows without the reward growing, or shrinks to a few tokens: the policy found that length alone pays.",
  },
  max_tokens: {
    name: "Max tokens",
    what: "The most tokens that one answer may have: at the end of them it is cut off.",
    bad: "Below what a whole answer needs: most are cut off.",
  },
  cut_off: {
    name: "Answers cut off",
    what: "The share of answers that ended at max_tokens, without an end of their own.",
    bad: "Above a few percent: such an answer rarely earns what it could. Raise max_tokens.",
  },
  clipped: {
    name: "Clipped tokens",
    what: "The share of tokens whose change was limited by the loss’s clip.",
    bad: "Above about 20 %: steps are too large, or samples too old.",
  },
  grad_norm: {
    name: "Gradient norm",
    what: "How large the step’s gradient was, before it was limited.",
    bad: "Peaks of ten times the usual, or exactly zero: then nothing was learned.",
  },
  learning_rate: {
    name: "Learning rate",
    what: "How far a step goes along the gradient. Without a choice it follows from the model’s size.",
    bad: "Too high: the reward jumps and collapses. Too low: nothing moves.",
  },
  updates: {
    name: "Updates",
    what: "Optimizer updates within one step: a batch may be walked in several parts.",
    bad: "",
  },
  distinct: {
    name: "Spread of the answers",
    what: "The share of different answers within groups.",
    bad: "Near zero: all attempts are the same, so all rewards are.",
  },
  grammars: {
    name: "Required form lost",
    what: "Answers whose required form (a JSON schema, a choice) the engine could not hold.",
    bad: "Above zero: such answers are not what was asked for.",
  },
  group: {
    name: "Group",
    what: "The attempts at one task that are compared with each other. Without a task’s name the first prompt decides.",
    bad: "Groups that never fill: the loop makes fewer attempts than grpo_n.",
  },
  equal: {
    name: "Equal groups",
    what: "Groups of which all episodes earned the same: they teach nothing.",
    bad: "Most of them are: tasks are too easy or too hard, or the reward has only two ends.",
  },
  staleness: {
    name: "Staleness",
    what: "How many versions old the oldest sample of the step was.",
    bad: "It stands at max_staleness all the time: the loop is slower than training, and learns from old answers.",
  },
  policy: {
    name: "Samples",
    what: "How old the weights may be whose answers a step trains on. The newest weights only is called on-policy.",
    bad: "",
  },
  version: {
    name: "Policy version",
    what: "How many steps the weights have behind them that the engine serves now.",
    bad: "It stands still while episodes end: groups do not fill, or steps are refused.",
  },
  step_time: {
    name: "Step time",
    what: "Seconds of a step: playing (rollout), training, and handing the weights to the engine.",
    bad: "Rollout far above the rest: more runners or shorter answers make it faster.",
  },
  speed: {
    name: "Tokens per second",
    what: "Trained tokens by the time of the whole step.",
    bad: "It falls: answers got longer, or the machine is shared.",
  },
  fate: {
    name: "Fate",
    what: "What became of an episode: open, waiting for its group, trained, evaluation, stale (too old, or nothing to learn from), abandoned or expired.",
    bad: "Many are stale, abandoned or expired: they were paid for and taught nothing.",
  },
  timeline: {
    name: "Timeline",
    what: "The token sequence that calls of an episode merge into. Several: agents, or a history that was rewritten.",
    bad: "As many as calls: the client rewrites its history at each call, and nothing is shared.",
  },
  logprob: {
    name: "Log-probability",
    what: "How likely the model found a token that it sampled; 0 is certain.",
    bad: "Very low for the whole answer: it was sampled at a high temperature, or is text the model does not know.",
  },
  raw_logprob: {
    name: "Raw log-probability",
    what: "The same before temperature and other options of sampling were applied.",
    bad: "",
  },
  trainer_logprob: {
    name: "Trainer’s log-probability",
    what: "How likely the trainer finds the token that the engine sampled, with the weights before the step.",
    bad: "Far from the engine’s: what is trained is not what was sampled.",
  },
  change: {
    name: "Change by the step",
    what: "How much more likely the step made this token, as the difference of its log-probability.",
    bad: "Large changes at many tokens: the learning rate is too high.",
  },
  drift: {
    name: "Drift",
    what: "A later request has an earlier message in other words than the engine saw. A new timeline begins there.",
    bad: "At each call: nothing is shared, and training costs many times as much.",
  },
  tokens_trained: {
    name: "Tokens trained",
    what: "Sampled tokens in the step’s loss, each once.",
    bad: "",
  },
  tokens_computed: {
    name: "Tokens computed",
    what: "Tokens that the trainer walked, prompts included; shared beginnings once.",
    bad: "Many times the trained ones: prompts are long beside the answers.",
  },
} satisfies Record<string, WordEntry>;
