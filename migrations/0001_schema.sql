-- The backend's schema. One mutable migration until the schema freezes (ARC-006): edit it, and
-- recreate development databases.

-- Ids of envelopes. Every id is handed out under the allocation barrier, so nothing may cache
-- values ahead, wrap around, or set the sequence back (ARC-039, ARC-040).
CREATE SEQUENCE envelope_sequence AS bigint
    START WITH 1 INCREMENT BY 1 MINVALUE 1 NO MAXVALUE CACHE 1 NO CYCLE;

-- Every published envelope, as its canonical encoding.
CREATE TABLE envelopes (
    sequence_id           bigint  NOT NULL CHECK (sequence_id > 0),
    topic                 bytea   NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 128),
    -- Start of the storing transaction, nanoseconds since the Unix epoch. Not an order (ARC-035).
    server_ns             bigint  NOT NULL,
    -- Null: never expires (ARC-025).
    expiry_ns             bigint,
    message_hash          bytea   NOT NULL CHECK (octet_length(message_hash) = 32),
    is_commit_or_proposal boolean NOT NULL,
    payload               bytea   NOT NULL,
    CONSTRAINT envelopes_pkey PRIMARY KEY (sequence_id),
    CONSTRAINT envelopes_topic_message_hash_key UNIQUE (topic, message_hash)
);

-- Pages of one topic in order (ARC-061).
CREATE INDEX envelopes_topic_sequence_id_idx ON envelopes (topic, sequence_id);

-- Payloads are ciphertext, which does not compress: do not spend time trying.
ALTER TABLE envelopes ALTER COLUMN payload SET STORAGE EXTERNAL;

-- The newest envelope of each topic (ARC-021).
CREATE TABLE topic_watermark (
    topic            bytea  NOT NULL,
    last_sequence_id bigint NOT NULL CHECK (last_sequence_id > 0),
    CONSTRAINT topic_watermark_pkey PRIMARY KEY (topic)
);

-- Which identifiers belong to which inboxes, by the updates that said so (ARC-022).
CREATE TABLE identifier_association (
    -- Normalized for its kind.
    identifier              text     NOT NULL,
    -- 1 Ethereum address, 2 passkey.
    identifier_kind         smallint NOT NULL,
    inbox_id                bytea    NOT NULL,
    association_sequence_id bigint   NOT NULL,
    revocation_sequence_id  bigint,
    CONSTRAINT identifier_association_pkey PRIMARY KEY (identifier, identifier_kind, inbox_id)
);

-- The latest live association of an identifier (ARC-065).
CREATE INDEX identifier_association_active_idx
    ON identifier_association (identifier, identifier_kind, association_sequence_id DESC)
    WHERE revocation_sequence_id IS NULL;

-- No transaction can still commit an id at or below this one (ARC-038, ARC-039).
CREATE TABLE allocation_boundary (
    singleton          boolean NOT NULL DEFAULT true CHECK (singleton),
    closed_sequence_id bigint  NOT NULL DEFAULT 0 CHECK (closed_sequence_id >= 0),
    CONSTRAINT allocation_boundary_pkey PRIMARY KEY (singleton)
);

INSERT INTO allocation_boundary DEFAULT VALUES;
