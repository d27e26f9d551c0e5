package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// hosts reads the newest appraisal of each host from a log (a URL, an export, a folder), or from files of appraisals. Of a
// log only those of its last days count.
func (a *app) hosts(ctx context.Context, source, trust string, days int) ([]policy.Candidate, error) {
	info, err := os.Stat(source)
	switch {
	case strings.Contains(source, "://"):
		src, err := a.pullSource(source)
		if err != nil {
			return nil, err
		}
		return a.hostsOfLog(ctx, src, trust, days)
	case err != nil:
		return nil, err
	case info.IsDir() && !isLog(source):
		return hostsOfFolder(source)
	case !info.IsDir() && strings.HasSuffix(source, ".json"):
		return hostsOfFile(source)
	}
	log, err := a.openLog(source)
	if err != nil {
		return nil, err
	}
	found, err := a.hostsOfLog(ctx, log.Source, trust, days)
	return found, errors.Join(err, log.Close())
}

// isLog reports whether a folder is an unpacked export or a mirror.
func isLog(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "checkpoint"))
	return err == nil
}

func (a *app) hostsOfLog(ctx context.Context, src ledger.Source, trustFile string, days int) ([]policy.Candidate, error) {
	trust, err := readTrust(trustFile)
	if err != nil {
		return nil, err
	}
	g, err := audit.ReadLog(ctx, src, trust, audit.Options{Progress: a.progress()})
	if err != nil {
		return nil, err
	}
	newest, last := map[string]audit.Row{}, canon.Time(0)
	faulty := 0
	for row, err := range g.Rows(ctx) {
		switch {
		case err != nil:
			return nil, err
		case row.Outcome == "":
			faulty++
			continue
		}
		name := row.Node
		if name == "" {
			name = "evidence " + row.Evidence.Short()
		}
		if row.AsOf >= newest[name].AsOf {
			newest[name] = row
		}
		last = max(last, row.AsOf)
	}
	if faulty > 0 {
		a.say("%d verdicts of the log cannot be read and are left out: assay audit population says why", faulty)
	}
	if g.Integrity().Trust != audit.Anchored {
		a.say("nobody vouches for this log's keys; --trust FILE names a trust file")
	}
	var hosts []policy.Candidate
	for name, row := range newest {
		if last-row.AsOf > canon.Time(days)*24*3600 {
			continue
		}
		data, err := src.Blob(ctx, row.Appraisal)
		if err != nil {
			return nil, fmt.Errorf("appraisal of %s: %w", audit.Printable(name), err)
		}
		if canon.Sum(data) != row.Appraisal {
			return nil, fmt.Errorf("appraisal of %s: other bytes than the log's", audit.Printable(name))
		}
		ap, err := verifier.ParseAppraisal(data)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, policy.Candidate{Host: name, Claims: ap.Claims, AsOf: ap.AsOf})
	}
	slices.SortFunc(hosts, func(x, y policy.Candidate) int { return strings.Compare(x.Host, y.Host) })
	return hosts, nil
}

// newestOf returns each host once, by its newest appraisal, in the order in which they are named first.
func newestOf(all []policy.Candidate) (hosts []policy.Candidate) {
	place := map[string]int{}
	for _, h := range all {
		i, found := place[h.Host]
		switch {
		case !found:
			place[h.Host] = len(hosts)
			hosts = append(hosts, h)
		case h.AsOf >= hosts[i].AsOf:
			hosts[i] = h
		}
	}
	return hosts
}

// hostsOfFolder reads the .json files of a folder, each one or several appraisals.
func hostsOfFolder(folder string) (hosts []policy.Candidate, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeType != 0 || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		found, err := hostsOfFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, found...)
	}
	if hosts == nil {
		return nil, fmt.Errorf("%s: no log, and no .json file of an appraisal in it", folder)
	}
	return hosts, nil
}

// hostsOfFile reads a file of an appraisal, or of what assay verify -o json writes.
func hostsOfFile(name string) ([]policy.Candidate, error) {
	data, err := files.Bounded(name, doc.MaxSize)
	if err != nil {
		return nil, err
	}
	typ, err := doc.TypeOf(name, data)
	if err != nil {
		return nil, err
	}
	switch typ {
	case verifier.AppraisalType:
		var ap verifier.Appraisal
		if _, err := doc.Decode(name, data, &ap); err != nil {
			return nil, err
		}
		return []policy.Candidate{{Host: name, Claims: ap.Claims, AsOf: ap.AsOf}}, nil
	case reportType:
		var r report
		if _, err := doc.Decode(name, data, &r); err != nil {
			return nil, err
		}
		return []policy.Candidate{{Host: r.File, Claims: r.Claims, AsOf: r.AsOf}}, nil
	}
	return nil, fmt.Errorf("%s: type %.80q is no appraisal: want %s, or %s as assay verify -o json writes it", name, typ, verifier.AppraisalType, reportType)
}
