// Sign in with e-mail and password.
import { Link } from "react-router";
import { signIn } from "../../api/auth";
import { CredentialsForm } from "./credentials-form";

export function SignInPage() {
  return (
    <CredentialsForm title="Sign in" action="Sign in" submit={signIn}>
      New here?{" "}
      <Link to="/signup" className="font-medium text-accent underline-offset-2 hover:underline">
        Create an account
      </Link>
    </CredentialsForm>
  );
}
