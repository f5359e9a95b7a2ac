// The memory part of a dry run: whether it fits, and of what it is made.
import { ApiError } from "../../../api/errors";
import type { MemoryEstimate, SessionPlan } from "../../../api/types";

export type MemoryFit = "fits" | "tight" | "does not fit" | "unknown";
export type MemoryPlan = Pick<SessionPlan, "memory" | "memory_limit_bytes">;

/** Activations are an upper bound, reached only by batches that fill their rows: without them it may still fit. */
export function memoryFit({ memory, memory_limit_bytes: limit }: MemoryPlan): MemoryFit {
  if (!memory || limit === null) return "unknown";
  if (memory.total_bytes <= limit) return "fits";
  return memory.total_bytes - memory.activation_bytes <= limit ? "tight" : "does not fit";
}

/** The parts that are not nothing, in the order in which they are explained. */
export function memoryParts(memory: MemoryEstimate): [string, number][] {
  const parts: [string, number][] = [
    [memory.engines > 1 ? `${memory.engines} engines, at most` : "Engine", memory.engine_bytes],
    ["Trainer", memory.trainer_bytes],
    ["Optimizer", memory.optimizer_bytes],
    ["Reference", memory.reference_bytes],
    ["Hand-over", memory.handover_bytes],
    ["Activations, at most", memory.activation_bytes],
    ["Processes", memory.process_bytes],
  ];
  return parts.filter(([, size]) => size > 0);
}

/** The prediction that comes with a refusal for memory. */
export function refusedPlan(error: Error | null): MemoryPlan | null {
  if (!(error instanceof ApiError) || error.code !== "does_not_fit") return null;
  return error.details as unknown as MemoryPlan;
}
