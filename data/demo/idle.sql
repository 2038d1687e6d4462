-- A connection that somebody forgot.
SELECT 1;
