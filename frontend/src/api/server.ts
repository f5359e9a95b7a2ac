// What this server is, which models it offers, what it has to run sessions on, and who waits.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";

export const serverQuery = queryOptions({
  queryKey: ["server"],
  queryFn: () => unwrap(api.GET("/v1/server")),
  staleTime: Infinity,
});

export const baseModelsQuery = queryOptions({
  queryKey: ["base-models"],
  queryFn: () => unwrap(api.GET("/v1/base-models")),
  staleTime: 300_000,
});

const REFRESH_MS = 5_000;

/** Where sessions can run: this machine and the clusters that the operator has named. */
export const placesQuery = queryOptions({
  queryKey: ["places"],
  queryFn: () => unwrap(api.GET("/v1/places")),
  refetchInterval: REFRESH_MS,
});

export const capacityQuery = queryOptions({
  queryKey: ["capacity"],
  queryFn: () => unwrap(api.GET("/v1/capacity")),
  refetchInterval: REFRESH_MS,
});
