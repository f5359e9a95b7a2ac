// Who is signed in, and the way out.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Check, ChevronDown } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useNavigate } from "react-router";
import { replaceAddress } from "../../address";
import { signOut } from "../../api/auth";
import { chooseTheme, themeOf, THEMES, useTheme } from "../../ui/theme";

const item = "cursor-pointer rounded px-2.5 py-1.5 outline-none data-highlighted:bg-sunken";

export function AccountMenu({ email, invited }: { email: string; invited: boolean }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const theme = useTheme();
  const leave = useMutation({
    mutationFn: signOut,
    onSuccess: () => {
      replaceAddress("/signin");
      client.clear();
    },
  });
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger className="flex h-8 max-w-64 min-w-0 items-center gap-1.5 rounded-md px-2 text-muted hover:bg-sunken hover:text-ink">
        {invited && (
          <span
            role="img"
            aria-label="You are invited to a project"
            className="size-2 shrink-0 rounded-full bg-accent"
          />
        )}
        <span className="truncate">{email}</span>
        <ChevronDown className="size-3.5 shrink-0" />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="end"
          sideOffset={4}
          className="z-10 min-w-40 rounded-md border border-line bg-raised p-1 shadow-lg"
        >
          <DropdownMenu.Item
            className={item}
            onSelect={() => {
              void navigate("/account");
            }}
          >
            Account
          </DropdownMenu.Item>
          <DropdownMenu.Item
            className={item}
            onSelect={() => {
              leave.mutate();
            }}
          >
            Sign out
          </DropdownMenu.Item>
          <DropdownMenu.Separator className="my-1 border-t border-line" />
          <DropdownMenu.Label className="px-2.5 py-1 text-xs text-muted">Theme</DropdownMenu.Label>
          <DropdownMenu.RadioGroup
            aria-label="Theme"
            value={theme}
            onValueChange={(value) => {
              chooseTheme(themeOf(value));
            }}
          >
            {THEMES.map(({ value, name }) => (
              <DropdownMenu.RadioItem
                key={value}
                value={value}
                className={`${item} flex items-center justify-between`}
              >
                {name}
                <DropdownMenu.ItemIndicator>
                  <Check className="size-3.5" />
                </DropdownMenu.ItemIndicator>
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
