// The catalogue of models that a session can start from.
import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "./client";

export const baseModelsQuery = queryOptions({
  queryKey: ["base-models"],
  queryFn: () => answer(api.GET("/v1/base-models")),
  staleTime: 300_000,
});
