package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// What callers read of the log: its entries, and blobs. Whoever runs the verifier reads all of it. An auditor with a scope
// reads the entries of the nodes in it, within its period, and those that are of no tenant and that a recomputation needs:
// keysets, policies, reference values, collateral, engines, heads. A blob is read by way of an entry: that somebody knows
// its digest gives no right to it.

// shared are the kinds of entries that are of no tenant.
var shared = []string{ledger.KindKeyset, ledger.KindPolicy, ledger.KindReference, ledger.KindCollateral, ledger.KindEngine, ledger.KindHeads}

// entryReader decides of entries whether one caller may read them.
type entryReader struct {
	s    *Server
	who  caller
	owns map[string]bool // nodes that were looked up
}

func (s *Server) readerFor(who caller) *entryReader { return &entryReader{s, who, map[string]bool{}} }

// readsAll reports whether there is nothing that the caller may not read.
func (r *entryReader) readsAll() bool {
	return r.who.ofTheHouse() && r.who.token.Grant.Scope.IsZero()
}

// mayRead reports whether the caller may read an entry, and what its body says.
func (r *entryReader) mayRead(ctx context.Context, e ledger.Entry) (bool, error) {
	switch {
	case r.readsAll() || slices.Contains(shared, e.Kind):
		return true, nil
	case e.Kind == ledger.KindCarried: // it names words and appraisals of before, of everybody
		return false, nil
	case !r.who.within(e.Time):
		return false, nil
	case r.who.ofTheHouse():
		return true, nil
	}
	node, tenant, err := r.nodeOf(ctx, e)
	var erased *ErasedError
	if errors.As(err, &erased) || errors.Is(err, fs.ErrNotExist) { // whose it was, nobody can tell any more
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if node == "" { // a host of an inventory, of which no node may ever be
		grant := r.who.token.Grant
		return tenant != "" && tenant == grant.Tenant && len(grant.Scope.Nodes) == 0, nil
	}
	return r.ownsNode(ctx, node)
}

// nodeOf returns the node that an entry is of, or nothing; of a host of an inventory, whose it is.
func (r *entryReader) nodeOf(ctx context.Context, e ledger.Entry) (node, tenant string, err error) {
	node, err = r.nodeNamed(ctx, e)
	if err != nil || node != "" || e.Kind != ledger.KindEnrolment {
		return node, "", err
	}
	body, err := r.s.store.Blob(ctx, e.Body)
	if err != nil {
		return "", "", err
	}
	n, err := ledger.ParseEnrolment(body)
	if err != nil || n.Host == nil {
		return "", "", err
	}
	return "", n.Host.Tenant, nil
}

// nodeNamed returns the node that an entry or its body names, or nothing.
func (r *entryReader) nodeNamed(ctx context.Context, e ledger.Entry) (string, error) {
	if stream := e.Stream; e.Kind == ledger.KindEvidence {
		return strings.TrimPrefix(stream, ledger.NodeStream("")), nil
	}
	if e.Kind == ledger.KindAppraisal && len(e.Refs) > 0 {
		return r.nodeOfEvidence(ctx, e.Refs[0])
	}
	if !slices.Contains([]string{ledger.KindChallenge, ledger.KindVerdict, ledger.KindEnrolment}, e.Kind) {
		return "", nil
	}
	body, err := r.s.store.Blob(ctx, e.Body)
	if err != nil {
		return "", err
	}
	switch e.Kind {
	case ledger.KindChallenge:
		var c attest.Challenge
		err := canon.Unmarshal(body, &c)
		return c.Node, err
	case ledger.KindEnrolment:
		n, err := ledger.ParseEnrolment(body)
		return n.Node, err
	}
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return "", err
	}
	result, err := policy.ParseResult(env.Payload)
	if err != nil {
		return "", err
	}
	return r.nodeOfEvidence(ctx, result.Evidence)
}

func (r *entryReader) nodeOfEvidence(ctx context.Context, evidence canon.Digest) (node string, err error) {
	err = r.s.store.db.Reader().QueryRowContext(ctx, `SELECT node FROM submission WHERE evidence = $1`, evidence[:]).Scan(&node)
	if err != nil {
		return "", fmt.Errorf("look up whose evidence %s is: %w", evidence, err)
	}
	return node, nil
}

func (r *entryReader) ownsNode(ctx context.Context, node string) (bool, error) {
	owns, known := r.owns[node]
	if known {
		return owns, nil
	}
	var own filter
	own.and(`id = ?`, node)
	r.who.ownNodes(&own)
	err := r.s.store.db.Reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM node WHERE `+own.String()+`)`, own.args...).Scan(&owns)
	if err != nil {
		return false, fmt.Errorf("look up a node: %w", err)
	}
	r.owns[node] = owns
	return owns, nil
}

// entries returns the entries of a log from an index on that a caller may read. Among those that it may not, MaxScan are
// passed over in one answer.
func (s *Server) entries(ctx context.Context, who caller, l Log, from int64) (client.Entries, error) {
	r := s.readerFor(who)
	page := client.Entries{}
	var found []Record
	for scanned := 0; len(found) < MaxPage && scanned < MaxScan; scanned += MaxPage {
		some, err := l.Entries(ctx, from, MaxPage)
		if err != nil {
			return client.Entries{}, err
		}
		page.Next = 0
		for _, e := range some {
			ok, err := r.mayRead(ctx, e.Entry)
			if err != nil {
				return client.Entries{}, err
			}
			if from = e.Index + 1; ok {
				if found = append(found, e); len(found) == MaxPage {
					break
				}
			}
		}
		if len(some) < MaxPage && len(found) < MaxPage {
			page.Entries, err = s.open(ctx, found)
			return page, err
		}
		page.Next = from
	}
	var err error
	page.Entries, err = s.open(ctx, found)
	return page, err
}

// blob returns the bytes of a digest. A caller who does not read everything comes by way of an entry: that the digest is
// the commitment or the body of; or one with an index in a log, whose body names the blob. A negative index is none.
func (s *Server) blob(ctx context.Context, who caller, digest canon.Digest, by int64, origin string) ([]byte, error) {
	r := s.readerFor(who)
	if !r.readsAll() {
		found, err := s.entriesAt(ctx, digest, by, origin)
		if err != nil {
			return nil, err
		}
		ok := false
		for i := 0; i < len(found) && !ok; i++ {
			if ok, err = r.mayRead(ctx, found[i].Entry); err == nil && ok && by >= 0 {
				ok, err = s.names(ctx, r, found[i], digest)
			}
			if err != nil {
				return nil, err
			}
		}
		if !ok {
			return nil, errNothing
		}
	}
	return s.store.Blob(ctx, digest)
}

// entriesAt returns the entries that may lead to a blob.
func (s *Server) entriesAt(ctx context.Context, digest canon.Digest, by int64, origin string) ([]Record, error) {
	if by >= 0 {
		l, err := s.logAt(ctx, origin)
		if err != nil {
			return nil, err
		}
		return l.Entries(ctx, by, 1)
	}
	e, err := s.store.Entry(ctx, digest)
	if err == nil {
		return []Record{e}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return s.store.EntriesOf(ctx, digest, MaxPage)
}

// names reports whether a blob belongs to an entry: as its opening, its body, or what that names. The seed of heads opens
// what all streams are, and is for those who read them all.
func (s *Server) names(ctx context.Context, r *entryReader, e Record, digest canon.Digest) (bool, error) {
	if digest == e.Commitment || digest == e.Body {
		return true, nil
	}
	if e.Kind == ledger.KindHeads && !r.who.ofTheHouse() {
		return false, nil
	}
	named, err := audit.Names(ctx, s.store.Source(), e.Entry)
	var erased *ErasedError
	if errors.As(err, &erased) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.Contains(named, digest), err
}

// mayFollow refuses a stream that is not the caller's to know of.
func (s *Server) mayFollow(ctx context.Context, who caller, stream string) error {
	if who.ofTheHouse() {
		return nil
	}
	node, ok := strings.CutPrefix(stream, ledger.NodeStream(""))
	if ok {
		var err error
		if ok, err = s.readerFor(who).ownsNode(ctx, node); err != nil {
			return err
		}
	}
	if !ok {
		return errNothing
	}
	return nil
}
