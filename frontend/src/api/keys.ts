// API keys of the project.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import type { KeyCreate, KeyCreated } from "./types";

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: () => unwrap(api.GET("/v1/keys")),
});

export function createKey(body: KeyCreate): Promise<KeyCreated> {
  return unwrap(api.POST("/v1/keys", { body }));
}

export function revokeKey(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/keys/{key_id}", { params: { path: { key_id: id } } }));
}
