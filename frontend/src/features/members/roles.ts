// What each role may do, in words.
import type { Role } from "../../api/types";

export const ROLES: { value: Role; name: string; may: string }[] = [
  { value: "owner", name: "Owner", may: "do everything, also manage members and webhooks" },
  { value: "member", name: "Member", may: "start and stop sessions, play episodes, and make keys" },
  { value: "viewer", name: "Viewer", may: "look at everything and download, and start nothing" },
];
