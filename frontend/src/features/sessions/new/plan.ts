// The memory part of a dry run: whether it fits, and of what it is made.
import { ApiError } from "../../../api/errors";
import type { MemoryEstimate, MemoryPlace, SessionPlan } from "../../../api/types";

export type MemoryFit = "fits" | "tight" | "does not fit" | "unknown";
export type MemoryPlan = Pick<SessionPlan, "memory" | "memory_limit_bytes">;

/** Activations and head are upper bounds, reached only by batches that fill their rows: without them it may still fit. */
function placeFit(
  place: Pick<MemoryPlace, "available_bytes" | "total_bytes" | "activation_bytes" | "head_bytes">,
): MemoryFit {
  const limit = place.available_bytes;
  if (limit === null) return "unknown";
  if (place.total_bytes <= limit) return "fits";
  return place.total_bytes - place.activation_bytes - place.head_bytes <= limit
    ? "tight"
    : "does not fit";
}

const FITS: MemoryFit[] = ["fits", "tight", "does not fit"];

/** That of the place that is worst off; where nothing is known of places, of all memory against one limit. */
export function memoryFit({ memory, memory_limit_bytes: limit }: MemoryPlan): MemoryFit {
  if (!memory) return "unknown";
  const known = memory.places.map(placeFit).filter((fit) => fit !== "unknown");
  const whole = { ...memory, available_bytes: limit };
  if (known.length === 0) return placeFit(whole);
  return FITS[Math.max(...known.map((fit) => FITS.indexOf(fit)))] ?? "unknown";
}

/** What runs on a place: "2 ranks, engine". */
export function placeRuns(place: MemoryPlace): string {
  const ranks = place.ranks > 1 ? `${String(place.ranks)} ranks` : "rank";
  const engine = place.engine_weights_bytes > 0 ? "engine" : "";
  return [engine, place.ranks > 0 ? ranks : ""].filter(Boolean).join(", ");
}

/** The parts of a place that are not nothing, the largest first. */
export function placeParts(place: MemoryPlace): [string, number][] {
  const parts: [string, number][] = [
    ["weights", place.weights_bytes],
    ["gradients", place.gradient_bytes],
    ["optimizer", place.optimizer_bytes],
    ["reference", place.reference_bytes],
    ["hand-over", place.handover_bytes],
    ["activations, at most", place.activation_bytes],
    ["head, at most", place.head_bytes],
    ["engine's weights", place.engine_weights_bytes],
    ["keys and values", place.cache_bytes],
    ["processes", place.process_bytes],
  ];
  return parts.filter(([, size]) => size > 0).sort(([, one], [, other]) => other - one);
}

/** The parts that are not nothing, in the order in which they are explained. */
export function memoryParts(memory: MemoryEstimate): [string, number][] {
  const parts: [string, number][] = [
    [engineName(memory), memory.engine_bytes],
    ["Trainer", memory.trainer_bytes],
    ["Optimizer", memory.optimizer_bytes],
    ["Reference", memory.reference_bytes],
    ["Hand-over", memory.handover_bytes],
    ["Activations, at most", memory.activation_bytes],
    ["Head, at most", memory.head_bytes],
    ["Processes", memory.process_bytes],
  ];
  return parts.filter(([, size]) => size > 0);
}

function engineName(memory: MemoryEstimate): string {
  return memory.engines > 1 ? `${memory.engines} engines, at most` : "Engine";
}

/** The prediction that comes with a refusal for memory. */
export function refusedPlan(error: Error | null): MemoryPlan | null {
  if (!(error instanceof ApiError) || error.code !== "does_not_fit") return null;
  return error.details as unknown as MemoryPlan;
}
