// Sign in with e-mail and password.
import { Link } from "react-router";
import { signIn } from "../../api/auth";
import { linkClass } from "./account-frame";
import { CredentialsForm } from "./credentials-form";

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
