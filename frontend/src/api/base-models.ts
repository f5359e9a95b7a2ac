// The catalogue of models that a session can start from.
import { queryOptions } from "@tanstack/react-query";
import { get } from "./client";
import type { BaseModel, Items } from "./types";

export const baseModelsQuery = queryOptions({
  queryKey: ["base-models"],
  queryFn: () => get<Items<BaseModel>>("/v1/base-models"),
  staleTime: 300_000,
});
