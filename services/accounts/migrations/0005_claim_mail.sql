-- Takes the mail that has been due for longest, with a lease; before that forgets one that is out, so that where many
-- are due each costs one commit.
create function claim_mail(lease_seconds float8, sent uuid)
    returns table (id uuid, address text, language text, code_id uuid, seconds_left float8, attempts int)
language plpgsql
set search_path from current
-- By the index from the oldest on. What was planned while the table was small would read and sort all that waits, and
-- all that is gone and not yet cleaned up, for each mail.
set enable_seqscan = off
set enable_sort = off
as $$
#variable_conflict use_column
begin
    if sent is not null then
        delete from mail_outbox m where m.id = sent;
    end if;
    return query
        update mail_outbox m
        set next_at = levata_now() + lease_seconds * interval '1 second', attempts = m.attempts + 1
        where m.id = (
            select due.id from mail_outbox due
            where given_up is null and next_at <= levata_now() and expires_at > levata_now()
            -- A code that was used, or that another one has replaced, is in nobody's mind any more.
              and (select c.spent_by is null from sign_in_code c where c.code_id = due.code_id)
            order by next_at limit 1
            for update skip locked
        )
        returning m.id, m.address, m.language, m.code_id,
                  extract(epoch from m.expires_at - levata_now())::float8, m.attempts;
end
$$;
