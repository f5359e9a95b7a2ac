// The form that signing up and signing in share.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode, type SyntheticEvent } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { accountQuery } from "../../api/account";
import type { Credentials } from "../../api/auth";
import { ApiError } from "../../api/client";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { Wordmark } from "../../ui/wordmark";

interface CredentialsFormProps {
  title: string;
  action: string;
  passwordHint?: string;
  newPassword?: boolean;
  submit: (credentials: Credentials) => Promise<void>;
  children: ReactNode;
}

/** Only a path of this console is followed after signing in: a link must not lead a signed-in user elsewhere. */
function safeNext(next: string | null): string {
  return next?.startsWith("/") && !next.startsWith("//") && !next.includes("\\") ? next : "/sessions";
}

export function CredentialsForm({ title, action, passwordHint, newPassword = false, submit, children }: CredentialsFormProps) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const client = useQueryClient();
  const navigate = useNavigate();
  const [search] = useSearchParams();
  const enter = useMutation({
    mutationFn: submit,
    onSuccess: async () => {
      await client.resetQueries({ queryKey: accountQuery.queryKey });
      await navigate(safeNext(search.get("next")), { replace: true });
    },
  });
  const fields = enter.error instanceof ApiError ? enter.error.fields : {};

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    enter.mutate({ email: email.trim(), password });
  }

  return (
    <main className="mx-auto flex min-h-screen w-full max-w-sm flex-col justify-center px-6 py-12">
      <div className="mb-6 text-base">
        <Wordmark />
      </div>
      <div className="rounded-xl border border-line bg-surface p-6">
        <h1 className="mb-5 text-lg font-semibold">{title}</h1>
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
      </div>
      <p className="mt-4 text-center text-muted">{children}</p>
    </main>
  );
}
