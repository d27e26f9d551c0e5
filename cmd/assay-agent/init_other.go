//go:build !linux

package main

import (
	"context"
	"io"
)

// firstProcess: only Linux starts a program from an initial RAM disk.
func firstProcess(context.Context, io.Writer) {}
