module github.com/rowlock/rowlock/examples

go 1.25.0

require github.com/rowlock/rowlock v0.0.0

replace github.com/rowlock/rowlock => ../
