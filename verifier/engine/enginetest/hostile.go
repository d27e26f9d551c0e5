package enginetest

import (
	"encoding/binary"
	"slices"
)

// Modules that are no engines, each a program of a few instructions.
var (
	Loops   = program(nil, nil, 0x03, 0x40, 0x0c, 0x00, 0x0b)       // loop: br 0
	Traps   = program(nil, nil, 0x00)                               // unreachable
	Returns = program(nil, nil)                                     // at once, without an answer
	Exits   = program([]string{"proc_exit"}, nil, 0x41, 3, 0x10, 0) // proc_exit(3)

	// Reads opens a file; Listens waits for a connection.
	Reads   = program([]string{"path_open"}, nil, 0x41, 3, 0x41, 0, 0x41, 0, 0x41, 1, 0x41, 0, 0x42, 0, 0x42, 0, 0x41, 0, 0x41, 0, 0x10, 0, 0x1a)
	Listens = program([]string{"sock_accept"}, nil, 0x41, 3, 0x41, 0, 0x41, 0, 0x10, 0, 0x1a)

	// Grows takes memory until there is no more, and breaks off.
	Grows = program(nil, nil, 0x03, 0x40, 0x41, 0x80, 0x01, 0x40, 0x00, 0x41, 0x7f, 0x47, 0x0d, 0x00, 0x0b, 0x00)

	// Dials imports what no engine may.
	Dials = assemble([]importedFunc{{"env", "dial", 0}}, nil, nil)

	// Nothing is a module without a program.
	Nothing = []byte("\x00asm\x01\x00\x00\x00")
)

// Says returns a module that answers whatever it is asked with the same bytes.
func Says(text []byte) []byte {
	code := []byte{0x03, 0x40}                                                            // loop
	code = append(code, 0x41, 0, 0x41, readVector, 0x41, 1, 0x41, wasRead, 0x10, 0, 0x1a) // fd_read(0, ...)
	code = append(code, 0x41, wasRead, 0x28, 2, 0, 0x45, 0x04, 0x40, 0x0f, 0x0b)          // if nothing was read, return
	code = append(code, 0x41, 1, 0x41, writeVector, 0x41, 1, 0x41, wasWritten, 0x10, 1, 0x1a, 0x0c, 0, 0x0b)
	return program([]string{"fd_read", "fd_write"}, text, code...)
}

// Blurts returns a module that says some bytes without having read what it is asked, and goes on for ever.
func Blurts(text []byte) []byte {
	return program([]string{"fd_write"}, text, 0x41, 1, 0x41, writeVector, 0x41, 1, 0x41, wasWritten, 0x10, 0, 0x1a, 0x03, 0x40, 0x0c, 0x00, 0x0b)
}

// Frame puts a length before a text, as a response has it.
func Frame(text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// TooMuch announces an answer of 4 GiB.
var TooMuch = Says([]byte{0xff, 0xff, 0xff, 0xff})

// wasi are the imported functions and the indexes of their types.
var wasi = map[string]byte{"proc_exit": 1, "fd_read": 2, "fd_write": 2, "path_open": 3, "sock_accept": 4}

type importedFunc struct {
	from, name string
	typ        byte
}

func program(imports []string, text []byte, code ...byte) []byte {
	var funcs []importedFunc
	for _, name := range imports {
		funcs = append(funcs, importedFunc{"wasi_snapshot_preview1", name, wasi[name]})
	}
	return assemble(funcs, text, code)
}

// Where things lie in memory.
const (
	readVector  = 0 // names room for 4 MiB behind the first pages
	writeVector = 8 // names the text
	wasRead     = 16
	wasWritten  = 20
	textAt      = 32
	maxRead     = 4 << 20
)

// assemble writes a module (WebAssembly Core Specification, section 5.5) with one memory and one function, _start.
func assemble(imports []importedFunc, text, code []byte) []byte {
	const i32, i64, function, memory = 0x7f, 0x7e, 0x00, 0x02
	types := vector(
		[]byte{0x60, 0, 0},
		[]byte{0x60, 1, i32, 0},
		[]byte{0x60, 4, i32, i32, i32, i32, 1, i32},
		[]byte{0x60, 9, i32, i32, i32, i32, i32, i64, i64, i32, i32, 1, i32},
		[]byte{0x60, 3, i32, i32, i32, 1, i32},
	)
	var listed [][]byte
	for _, f := range imports {
		listed = append(listed, slices.Concat(name(f.from), name(f.name), []byte{function, f.typ}))
	}
	body := slices.Concat([]byte{0}, code, []byte{0x0b}) // no locals
	pages := 1 + (textAt+len(text))>>16
	var data []byte
	for _, word := range []int{pages << 16, maxRead, textAt, len(text), 0, 0, 0, 0} {
		data = binary.LittleEndian.AppendUint32(data, uint32(word))
	}
	data = append(data, text...)
	return slices.Concat(Nothing,
		section(1, types),
		section(2, vector(listed...)),
		section(3, vector([]byte{0})),
		section(5, vector(slices.Concat([]byte{0}, number(pages+maxRead>>16)))),
		section(7, vector(slices.Concat(name("memory"), []byte{memory, 0}), slices.Concat(name("_start"), []byte{function}, number(len(imports))))),
		section(10, vector(slices.Concat(number(len(body)), body))),
		section(11, vector(slices.Concat([]byte{0, 0x41, 0, 0x0b}, number(len(data)), data))),
	)
}

func section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, number(len(content)), content)
}

func vector(items ...[]byte) []byte { return append(number(len(items)), slices.Concat(items...)...) }

func name(s string) []byte { return append(number(len(s)), s...) }

// number writes an unsigned LEB128.
func number(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
