// Sign in and sign up: the form that both share, the second step where the account asks for one, and the identity providers.
import { useMutation, useQueryClient, useQuery } from "@tanstack/react-query";
import { useState, type ReactNode, type SyntheticEvent } from "react";
import { Link, useSearchParams } from "react-router";
import { replaceAddress } from "../../address";
import { accountQuery } from "../../api/account";
import {
  signIn,
  signUp,
  confirmCode,
  providerList,
  signInByProvider,
  type Credentials,
} from "../../api/auth";
import { ApiError, fieldsOf } from "../../api/errors";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { linkClass, AccountFrame } from "./account-frame";

export function SignInPage() {
  return (
    <CredentialsForm title="Sign in" action="Sign in" submit={signIn}>
      New here?{" "}
      <Link to="/signup" className={linkClass}>
        Create an account
      </Link>
      <br />
      <Link to="/reset-password" className={linkClass}>
        Forgotten your password?
      </Link>
    </CredentialsForm>
  );
}

export function SignUpPage() {
  return (
    <CredentialsForm
      title="Create an account"
      action="Create account"
      submit={signUp}
      passwordHint="At least 8 characters."
      newPassword
    >
      Have one already?{" "}
      <Link to="/signin" className="font-medium text-accent underline-offset-2 hover:underline">
        Sign in
      </Link>
    </CredentialsForm>
  );
}

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

/** The form that signing up and signing in share. */
function CredentialsForm({
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
  const fields = fieldsOf(enter.error);
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
          onChange={setEmail}
          error={fields.email}
        />
        <TextField
          label="Password"
          type="password"
          autoComplete={newPassword ? "new-password" : "current-password"}
          required
          value={password}
          onChange={setPassword}
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
          onChange={setCode}
          description="From your authenticator app; or one of your recovery codes."
          error={fieldsOf(confirm.error).code}
        />
        <Button type="submit" look="primary" className="w-full" disabled={confirm.isPending}>
          Sign in
        </Button>
      </form>
    </AccountFrame>
  );
}

/** Sign in with an identity provider of the server’s settings; nothing where there is none. */
function ProviderButton() {
  const [search] = useSearchParams();
  const providers = useQuery({
    queryKey: ["providers"],
    queryFn: providerList,
    staleTime: Infinity,
  });
  const leave = useMutation({
    mutationFn: (id: string) =>
      signInByProvider(
        id,
        `/signin/done?next=${encodeURIComponent(search.get("next") ?? "/home")}`,
      ),
  });
  if (!providers.data?.length) return null;
  return (
    <div className="mt-4 space-y-4 border-t border-line pt-4">
      <ErrorNotice error={leave.error} />
      {providers.data.map((provider) => (
        <Button
          key={provider.id}
          className="w-full"
          disabled={leave.isPending}
          onClick={() => {
            leave.mutate(provider.id);
          }}
        >
          Continue with {provider.name}
        </Button>
      ))}
    </div>
  );
}
