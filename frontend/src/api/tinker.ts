// Sessions of the tinker client: their models, and what the calls of each returned.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import { at, unlessRefused } from "./sessions";
import type { Range } from "../ui/chart-axis";
import type { ModelCalls } from "./types";

const REFRESH_MS = 5_000;
const POINTS = 1000;

export type CallKind = "forward" | "forward_backward" | "optim_step";

export function tinkerRunQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "tinker", isLive], // and once more when it has ended: its last steps
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}/tinker", at(id))),
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

export function modelCallsQuery(id: string, modelId: string, kind: CallKind, isLive: boolean) {
  const params = { path: { session_id: id, model_id: modelId }, query: { kind, points: POINTS } };
  return queryOptions({
    queryKey: ["session", id, "tinker", modelId, kind, isLive],
    placeholderData: keepPreviousData,
    queryFn: (): Promise<ModelCalls> =>
      unwrap(api.GET("/v1/sessions/{session_id}/tinker/{model_id}/calls", { params })),
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

/** The calls of a part of the axis, in as many points as the whole has. */
export function finerCallsQuery(
  id: string,
  modelId: string,
  kind: CallKind,
  range: Range | null,
  isLive: boolean,
) {
  const query = {
    kind,
    points: POINTS,
    number_from: range && Math.max(1, Math.floor(range.min)),
    number_to: range && Math.max(1, Math.ceil(range.max)),
  };
  const params = { path: { session_id: id, model_id: modelId }, query };
  return queryOptions({
    queryKey: ["session", id, "tinker", modelId, kind, query],
    queryFn: (): Promise<ModelCalls> =>
      unwrap(api.GET("/v1/sessions/{session_id}/tinker/{model_id}/calls", { params })),
    enabled: range !== null,
    staleTime: isLive ? REFRESH_MS : Infinity,
  });
}
