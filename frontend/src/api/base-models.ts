// The catalogue of models that a session can start from.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";

export const baseModelsQuery = queryOptions({
  queryKey: ["base-models"],
  queryFn: () => unwrap(api.GET("/v1/base-models")),
  staleTime: 300_000,
});
