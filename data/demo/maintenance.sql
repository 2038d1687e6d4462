-- A checkpoint now and then, by hand.
CHECKPOINT
\watch 15
