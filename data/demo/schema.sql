-- The demo's databases. Run once, by the superuser, on an empty cluster whose fsync is off until this is done.
\set ON_ERROR_STOP on

CREATE ROLE app LOGIN;
CREATE ROLE report LOGIN;
CREATE ROLE batch LOGIN;

-- What both databases share goes into the template they are made from.
\connect template1

-- Which part of the show is on: calm, then a queue for locks, then a busy CPU, then I/O, and again.
CREATE FUNCTION phase() RETURNS text LANGUAGE sql AS $$
    SELECT (ARRAY['calm', 'locks', 'cpu', 'io'])[1 + floor(
        extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8
        / current_setting('demo.phase')::float8)::bigint % 4]
$$;

-- A number from 1 to n.
CREATE FUNCTION pick(n int) RETURNS int LANGUAGE sql AS $$
    SELECT 1 + floor(random() * n)::int
$$;

CREATE DATABASE shop;
CREATE DATABASE analytics;

\connect shop
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric NOT NULL, stock int NOT NULL) WITH (fillfactor = 70);
INSERT INTO item SELECT i, 'item ' || md5(i::text), (i % 1000) + 0.99, 1000000 FROM generate_series(1, 50000) i;

CREATE TABLE basket (id int PRIMARY KEY, lines int NOT NULL, touched timestamptz NOT NULL) WITH (fillfactor = 20);
INSERT INTO basket SELECT i, 0, now() FROM generate_series(1, 200) i;

CREATE TABLE warehouse (id int PRIMARY KEY, free int NOT NULL);
INSERT INTO warehouse SELECT i, 0 FROM generate_series(1, 50) i;

CREATE TABLE purchase (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item int NOT NULL, customer int NOT NULL,
    at timestamptz NOT NULL DEFAULT now(), note text);
INSERT INTO purchase (item, customer, note) SELECT 1 + i % 50000, 1 + i % 2000, md5(i::text) FROM generate_series(1, 40000) i;
CREATE INDEX ON purchase (customer);
GRANT ALL ON ALL TABLES IN SCHEMA public TO app, batch;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO report;
ANALYZE;

\connect analytics
CREATE TABLE visit (
    id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL DEFAULT now(), page int NOT NULL, ms int NOT NULL, agent text NOT NULL);
INSERT INTO visit (page, ms, agent) SELECT i % 97, i % 1511, 'Browser ' || md5(i::text) FROM generate_series(1, 150000) i;
CREATE INDEX ON visit (id);
GRANT ALL ON ALL TABLES IN SCHEMA public TO batch;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO report;
ANALYZE;

ALTER SYSTEM SET fsync = on;
SELECT pg_reload_conf();
