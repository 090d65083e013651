"""Numbers that were changed deliberately since the records were made, and why.

All records were made anew on 2026-11-26: scores of attention are scaled within their product,
before they are rounded to bfloat16 where that is their dtype, and not after it.

Those of recipes with new defaults (schedule, learning rate, Muon for language models) were made
once more that day. With the former settings, named explicitly, translators were bit-identical.
So were `translate`, `translate-multi30k` and `translate-learned` with --optimizer.kind adamw, when
Muon became the optimizer of translators from scratch.

Those of models of images and sounds were made anew on 2026-11-27: the projection of patches of I
numbers has 1/I of AdamW's rate, so that their vectors do not outgrow positions.

All were made anew later that day: with AVX2 only, attention to several tokens without gradients is
torch's kernel, which rounds in another order (evaluation, prediction, teachers and references).

Those of `chat`, and of `prefer` and `reward`, which start from it, were made anew on 2026-11-28:
the sequences of a batch of conversations are about equally full, and not padded to the length.
"""

CHANGES: dict[str, str] = {}
"""Pattern of "case path", as in "tag validation.*.f1" -> the reason. `*` matches anything."""
