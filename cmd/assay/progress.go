package main

import (
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// plainLines is the least work, in items, of which progress is told where there is no terminal, ten times in all.
const plainLines = 10_000

// progress returns what shows progress: a bar for each stage on a terminal, else lines that a log may hold.
func (a *app) progress() func(stage string, done, total int64) {
	if a.quiet {
		return nil
	}
	f, ok := a.stderr.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		return a.plainProgress()
	}
	var drawn *mpb.Progress
	var bar *mpb.Bar
	now := ""
	return func(stage string, done, total int64) {
		if bar == nil || stage != now {
			drawn, now = mpb.New(mpb.WithOutput(f), mpb.WithWidth(40)), stage
			bar = drawn.AddBar(total, mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name(stage, decor.WC{W: 10, C: decor.DindentRight}), decor.CountersNoUnit("%d of %d")),
				mpb.AppendDecorators(decor.Percentage(), decor.Name("  left "), decor.AverageETA(decor.ET_STYLE_GO)))
		}
		bar.SetTotal(total, false)
		bar.SetCurrent(done)
		if done >= total {
			bar.SetTotal(total, true)
			drawn.Wait()
			bar = nil
		}
	}
}

func (a *app) plainProgress() func(stage string, done, total int64) {
	now, tenth := "", int64(0)
	return func(stage string, done, total int64) {
		if total < plainLines {
			return
		}
		if stage != now {
			now, tenth = stage, 0
		}
		if reached := 10 * done / total; reached > tenth {
			tenth = reached
			a.say("%s %d of %d", stage, done, total)
		}
	}
}
