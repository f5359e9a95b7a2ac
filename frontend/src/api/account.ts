// Who is signed in, in which projects, and where they are invited to.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { keepChoice } from "./project";
import type { Project } from "./types";

export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: async () => keepChoice(await unwrap(api.GET("/v1/account"))),
  staleTime: 60_000,
});

export function createProject(name: string): Promise<Project> {
  return unwrap(api.POST("/v1/projects", { body: { name } }));
}

export function acceptInvitation(id: string): Promise<Project> {
  return unwrap(
    api.POST("/v1/invitations/{member_id}/accept", { params: { path: { member_id: id } } }),
  );
}

export function declineInvitation(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/invitations/{member_id}", { params: { path: { member_id: id } } }));
}

/** What the audit log has of the person's own sign-ins, newest first. */
export const signInsQuery = queryOptions({
  queryKey: ["sign-ins"],
  queryFn: () => unwrap(api.GET("/v1/account/sign-ins", { params: { query: { limit: 20 } } })),
});
