// Command tollgate is the dispatcher and everything an operator does with it.
package main

import (
	"os"

	"tollgate/internal/cli"
)

func main() { os.Exit(cli.Main()) }
