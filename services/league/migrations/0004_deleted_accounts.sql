-- Accounts that are no more, of guests too. No projection: what was decided stays as it was, and nobody is told who it was
-- about; so a rebuild leaves these alone.
create table deleted_account (
    account_id uuid primary key,
    deleted_at timestamptz not null
);
create trigger keep before update or delete on deleted_account for each row execute function refuse_change();
create trigger keep_all before truncate on deleted_account for each statement execute function refuse_change();

do $$
begin
    execute format('grant select, insert on deleted_account to %I', current_setting('levata.service_role'));
end
$$;
