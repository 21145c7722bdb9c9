-- Why a mail will never be sent; its address is emptied then.
alter table mail_outbox add column given_up text;
