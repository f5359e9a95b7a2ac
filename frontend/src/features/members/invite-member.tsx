// Invites an address; its owner becomes a member by accepting.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { fieldsOf } from "../../api/errors";
import { inviteMember, membersQuery } from "../../api/members";
import type { Role } from "../../api/types";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { SelectField, Options } from "../../ui/choices";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";

/** What each role may do, in words. */
export const ROLES: { value: Role; name: string; may: string }[] = [
  { value: "owner", name: "Owner", may: "do everything, also manage members and webhooks" },
  { value: "member", name: "Member", may: "start and stop sessions, play episodes, and make keys" },
  { value: "viewer", name: "Viewer", may: "look at everything and download, and start nothing" },
];

export function InviteMember() {
  const [open, setOpen] = useState(false);
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const client = useQueryClient();
  const invite = useMutation({
    meta: { done: "Invited" },
    mutationFn: inviteMember,
    onSuccess: async () => {
      setOpen(false);
      setEmail("");
      await client.invalidateQueries({ queryKey: membersQuery.queryKey });
    },
  });

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    invite.mutate({ email: email.trim(), role });
  }

  return (
    <>
      <Button
        look="primary"
        onClick={() => {
          invite.reset();
          setOpen(true);
        }}
      >
        Invite
      </Button>
      <Dialog
        open={open}
        onOpenChange={setOpen}
        title="Invite someone"
        description="The invitation waits on their account page. Somebody without an account signs up with this address first."
      >
        <form onSubmit={onSubmit} className="space-y-4" noValidate>
          <ErrorNotice error={invite.error} />
          <TextField
            label="E-mail"
            type="email"
            value={email}
            onChange={setEmail}
            error={fieldsOf(invite.error).email}
          />
          <SelectField
            label="Role"
            value={role}
            onChange={(value) => {
              setRole(value as Role);
            }}
            description={`May ${ROLES.find((entry) => entry.value === role)?.may ?? ""}.`}
          >
            <Options of={ROLES} />
          </SelectField>
          <div className="flex justify-end">
            <Button type="submit" look="primary" disabled={invite.isPending}>
              Send invitation
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
