// The signed-in person's own things: invitations, address, password, second factor, browsers.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { acceptInvitation, accountQuery, declineInvitation } from "../../api/account";
import { fieldsOf } from "../../api/errors";
import { addressesQuery, changePassword, resendConfirmation } from "../../api/security";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice, Notice } from "../../ui/notice";
import { PageHeader, Panel } from "../../ui/panel";
import { UserText } from "../../ui/plain-text";
import { BrowsersPanel, SignInsPanel } from "./browsers-panel";
import { SecondFactorPanel } from "./second-factor-panel";

export function AccountPage() {
  return (
    <>
      <PageHeader title="Account" />
      <div className="max-w-2xl space-y-4">
        <InvitationsPanel />
        <AddressPanel />
        <PasswordPanel />
        <SecondFactorPanel />
        <BrowsersPanel />
        <SignInsPanel />
      </div>
    </>
  );
}

function InvitationsPanel() {
  const client = useQueryClient();
  const { data: account } = useQuery(accountQuery);
  const onSettled = () => client.invalidateQueries({ queryKey: accountQuery.queryKey });
  const accept = useMutation({
    meta: { done: "You are in the project" },
    mutationFn: acceptInvitation,
    onSettled,
  });
  const decline = useMutation({
    meta: { done: "Invitation declined" },
    mutationFn: declineInvitation,
    onSettled,
  });
  if (!account?.invitations.length) return null;
  return (
    <Panel title="Invitations">
      <ErrorNotice error={accept.error ?? decline.error} />
      <ul className="divide-y divide-line">
        {account.invitations.map((invitation) => (
          <li key={invitation.id} className="flex items-center gap-3 px-4 py-2">
            <span className="min-w-0 flex-1 truncate">
              <UserText className="font-bold" text={invitation.project_name} /> as {invitation.role}
            </span>
            <Button
              look="primary"
              onClick={() => {
                accept.mutate(invitation.id);
              }}
            >
              Accept
            </Button>
            <Button
              onClick={() => {
                decline.mutate(invitation.id);
              }}
            >
              Decline
            </Button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

export function AddressPanel() {
  const { data: account } = useQuery(accountQuery);
  const { data: addresses, error } = useQuery(addressesQuery);
  const resend = useMutation({ mutationFn: resendConfirmation });
  return (
    <Panel title="E-mail address">
      <div className="space-y-3 p-4">
        <ErrorNotice error={error ?? resend.error} />
        {resend.isSuccess && (
          <Notice title="Look into your mail.">
            The link is on its way to {resend.variables}.
          </Notice>
        )}
        {addresses?.length === 0 && (
          <p className="text-muted">
            {account?.email} was set by the operator of this server; there is nothing to confirm.
          </p>
        )}
        {addresses?.map((address) => (
          <p key={address.email} className="flex flex-wrap items-center gap-3">
            <span className="min-w-0 flex-1 basis-40 truncate">{address.email}</span>
            {address.verified ? (
              <Badge tone="good">confirmed</Badge>
            ) : (
              <>
                <Badge tone="warn">not confirmed</Badge>
                <Button
                  disabled={resend.isPending}
                  onClick={() => {
                    resend.mutate(address.email);
                  }}
                >
                  Send the link again
                </Button>
              </>
            )}
          </p>
        ))}
      </div>
    </Panel>
  );
}

function PasswordPanel() {
  const [old, setOld] = useState("");
  const [fresh, setFresh] = useState("");
  const change = useMutation({
    mutationFn: changePassword,
    onSuccess: () => {
      setOld("");
      setFresh("");
    },
  });
  const fields = fieldsOf(change.error);

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    change.mutate({ current_password: old, new_password: fresh });
  }

  return (
    <Panel title="Password">
      <form onSubmit={onSubmit} className="space-y-4 p-4" noValidate>
        <ErrorNotice error={change.error} />
        {change.isSuccess && (
          <Notice title="Your password is changed.">Other browsers are signed out.</Notice>
        )}
        <TextField
          label="Current password"
          type="password"
          autoComplete="current-password"
          value={old}
          onChange={setOld}
          error={fields.current_password}
        />
        <TextField
          label="New password"
          type="password"
          autoComplete="new-password"
          value={fresh}
          onChange={setFresh}
          error={fields.new_password}
        />
        <Button type="submit" disabled={change.isPending || !fresh}>
          Change password
        </Button>
      </form>
    </Panel>
  );
}
