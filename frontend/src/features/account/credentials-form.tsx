// The form that signing up and signing in share, and the second step where the account asks for one.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode, type SyntheticEvent } from "react";
import { useSearchParams } from "react-router";
import { replaceAddress } from "../../address";
import { accountQuery } from "../../api/account";
import { confirmCode, type Credentials } from "../../api/auth";
import { ApiError } from "../../api/errors";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { AccountFrame } from "./account-frame";
import { ProviderButton } from "./provider-button";

interface CredentialsFormProps {
  title: string;
  action: string;
  passwordHint?: string;
  newPassword?: boolean;
  submit: (credentials: Credentials) => Promise<void>;
  children: ReactNode;
}

/** Only a path of this server is followed after signing in: a link must not lead a signed-in user elsewhere. */
function safeNext(next: string | null): string {
  return next?.startsWith("/") && !next.startsWith("//") && !next.includes("\\") ? next : "/home";
}

export function CredentialsForm({
  title,
  action,
  passwordHint,
  newPassword = false,
  submit,
  children,
}: CredentialsFormProps) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const enterPage = useEnterPage();
  const enter = useMutation({ mutationFn: submit, onSuccess: enterPage });
  const fields = enter.error instanceof ApiError ? enter.error.fields : {};
  if (enter.error instanceof ApiError && enter.error.code === "second_factor")
    return <SecondStep onDone={enterPage} />;

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    enter.mutate({ email: email.trim(), password });
  }

  return (
    <AccountFrame title={title} below={children}>
      <form onSubmit={onSubmit} className="space-y-4" noValidate>
        <ErrorNotice error={enter.error} />
        <TextField
          label="E-mail"
          type="email"
          autoComplete="username"
          autoFocus
          required
          value={email}
          onChange={(event) => {
            setEmail(event.target.value);
          }}
          error={fields.email}
        />
        <TextField
          label="Password"
          type="password"
          autoComplete={newPassword ? "new-password" : "current-password"}
          required
          value={password}
          onChange={(event) => {
            setPassword(event.target.value);
          }}
          description={passwordHint}
          error={fields.password}
        />
        <Button type="submit" look="primary" className="w-full" disabled={enter.isPending}>
          {action}
        </Button>
      </form>
      <ProviderButton />
    </AccountFrame>
  );
}

export function useEnterPage() {
  const client = useQueryClient();
  const [search] = useSearchParams();
  return async () => {
    const next = safeNext(search.get("next"));
    if (next.startsWith("/admin/")) {
      window.location.assign(next); // Django's own pages, not this one's
      return;
    }
    await client.resetQueries({ queryKey: accountQuery.queryKey });
    replaceAddress(next); // the router of this page has nothing below a project
  };
}

export function SecondStep({ onDone }: { onDone: () => Promise<void> }) {
  const [code, setCode] = useState("");
  const confirm = useMutation({ mutationFn: confirmCode, onSuccess: onDone });

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    confirm.mutate(code.trim());
  }

  return (
    <AccountFrame title="Second factor">
      <form onSubmit={onSubmit} className="space-y-4" noValidate>
        <ErrorNotice error={confirm.error} />
        <TextField
          label="Code"
          inputMode="numeric"
          autoComplete="one-time-code"
          autoFocus
          required
          value={code}
          onChange={(event) => {
            setCode(event.target.value);
          }}
          description="From your authenticator app; or one of your recovery codes."
          error={confirm.error instanceof ApiError ? confirm.error.fields.code : undefined}
        />
        <Button type="submit" look="primary" className="w-full" disabled={confirm.isPending}>
          Sign in
        </Button>
      </form>
    </AccountFrame>
  );
}
