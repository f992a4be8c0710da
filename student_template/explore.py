# %% [markdown]
# # Looking at your own attention
#
# This is Exercise 12.1.3 as a guided tour. Your own head, from parts 1 and 7, looks at four kinds of series: before it has
# learnt anything, and after it has learnt to forecast. You will see its weights as pictures and its errors in a table.
# Nothing here is marked; it is what to have seen before you answer the question at the end.
#
# It runs as a notebook, cell by cell, and as a script: `make explore`, or `python explore.py`, takes about half a minute
# and writes the pictures to the folder `explore/`. The folders `attention/` (yours) and `explore_kit/` have to lie beside it;
# in Colab, upload each as a zip and unpack it in a cell of its own: `!unzip attention.zip`.

# %%
try:
    from explore_kit import messages, settings
except ModuleNotFoundError:
    raise SystemExit("There is no folder explore_kit/ here: put it and your attention/ beside this file.") from None

messages.begin()  # from here on, what goes wrong in your files is told in a sentence
chosen = settings.choose(steps=800, learning_rate=0.01, seed=0)  # change them here, or run `python explore.py --steps 200`

# %%
import torch

from attention.forecasting import AttentionForecaster, circle_embedding, dominant_lag, lag_profile, next_step_pairs
from attention.forecasting import train_forecaster
from attention.scaled_dot_product import scaled_dot_product_attention
from explore_kit import pictures, results, series

torch.set_num_threads(1)  # the tensors are small, and threads would only wait for each other
device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"Running on {'the GPU' if device == 'cuda' else 'the CPU'}: {chosen.steps} training steps for each kind of series.")

# %% [markdown]
# ## 1. Content alone
#
# Code 12.1.4 has no learnt weights at all: queries, keys and values are the embedded series itself, so a position looks at
# what resembles it. Periods 4 and 7 are embedded as points on a circle; of a trend plus a season (of period 6) and of white
# noise, the values themselves are all there is to embed. Row `i` of a matrix is where position `i` looks; the future, above the
# diagonal, is forbidden. Below each matrix is its lag profile: the mean weight at each distance back.
#
# **Before you run it:** which positions resemble position 20 when the period is 4? When it is 7? How many lags will share the
# largest weight of one row? And which positions does a large value attend to, when the embedding is the value?

# %%
contents = []
for name, period, embedded in (
    ("period 4", 4, circle_embedding(28, 4)),
    ("period 7", 7, circle_embedding(28, 7)),
    ("trend plus season", 6, series.rising(28)),
    ("white noise", None, series.noise(28, chosen.seed)),
):
    _, weights = scaled_dot_product_attention(embedded, embedded, embedded, causal=True)
    profile = lag_profile(weights)
    contents.append(results.Content(name, period, weights, profile, dominant_lag(profile)))
pictures.show(pictures.content_only(contents), "1-content-only")

# %% [markdown]
# ## 2. Four kinds of series
#
# A season of period 4, one of period 7, a season of period 6 on top of a trend, and white noise. Every series has a phase of
# its own (and a trend of its own), and noise is added to each value, so that no forecast can be perfect.
#
# **Before you run it:** for which of the four will repeating the last value be a good forecast, and for which a bad one?

# %%
LENGTH = 49  # values of a series: 48 to look at, and the one that the last of them forecasts
kinds = series.four(LENGTH, chosen.seed, device)
pictures.show(pictures.examples(kinds), "2-series")

# %% [markdown]
# ## 3. Train a head on each
#
# One model of yours for each kind. `look` shows it fresh series, and keeps the weights of the first one, the lag profile over
# all of them, and the error of the forecasts in the second half, where there is enough past to look at. The profile ends at
# half the length: only a few rows can look further back, and their mean says little.
#
# **Before you run it:** what will an untrained head look at? Can a model do better than the noise floor? Than repeating the
# last value, on white noise?

# %%
WIDTH = 32
HALF = LENGTH // 2


def look(model: torch.nn.Module, kind: series.Series) -> results.Look:
    seen, targets = next_step_pairs(kind.fresh)
    with torch.no_grad():
        forecasts, weights = results.answer_of(model, seen)
    profile = lag_profile(weights.cpu()).mean(0)[:HALF]
    missed, changed = (forecasts - targets).square(), (seen - targets).square()
    return results.Look(
        weights=weights[0].cpu(),
        profile=profile,
        peak=dominant_lag(profile),
        error=missed[:, HALF:].mean().item(),
        error_everywhere=missed.mean().item(),
        repeating=changed[:, HALF:].mean().item(),
    )


before, after, curves = {}, {}, {}
for kind in kinds:
    print(f"{kind.name}: training", end="", flush=True)
    torch.manual_seed(chosen.seed)
    model = AttentionForecaster(WIDTH, LENGTH).to(device)
    before[kind.name] = look(model, kind)
    curves[kind.name] = train_forecaster(model, kind.training, chosen.steps, chosen.learning_rate)
    after[kind.name] = look(model, kind)
    print(f", error on fresh series from {before[kind.name].error:.3f} to {after[kind.name].error:.3f}", flush=True)

# %% [markdown]
# ## 4. The matrices
#
# The two rows have colour scales of their own: an untrained head spreads its weight thinly.
#
# **Look for** stripes along the diagonal (a fixed distance back) and columns (a fixed position). Which of the lower four has a
# pattern, and which would you call a pattern if you did not know what the series was?

# %%
pictures.show(pictures.before_and_after(kinds, before, after), "3-matrices")

# %% [markdown]
# ## 5. How far back
#
# Where a stripe lies is easier to read off the lag profile. The line marks the true period and the dotted ones its multiples;
# a ring is the dominant lag, which by its definition is never 0 or 1.
#
# **Before you run it:** row `t` forecasts the value at `t + 1`. At which lag of that row stands the value one period before the
# one to be forecast? Is that the only one that would be of use?

# %%
pictures.show(pictures.lags(kinds, before, after), "4-lags")

# %% [markdown]
# ## 6. How good the forecasts are
#
# A matrix of a model that forecasts badly tells nothing. The noise floor is the error of a forecast that knows all but the
# noise; the first positions have too little past to come near it, so compare a dot with the curve and a diamond with the
# lines. If a curve is still falling at its right end, take more steps; if it hardly falls at all, another learning rate
# (plain gradient descent needs a larger one than Adam).
#
# **Look for** an error in training that is below the floor. What has the model learnt there, and what is it worth on fresh
# series?

# %%
pictures.show(pictures.errors(kinds, curves, after), "5-errors")

# %%
print(results.table(kinds, before, after))

# %% [markdown]
# ## The question
#
# Does the learnt attention find the true period? And what does that say about reading attention matrices as explanations?
# Answer from what you saw, for each of the four, and name the picture or the row of the table that you go by. Before you settle:
#
# - Take another seed (`seed=1`, `seed=2` above, or `--seed 1`). What stays, the errors or the pictures?
# - Which of your heads, untrained ones and section 1 included, points at the true period, and which of them forecasts well?
# - What would you have said about white noise, had you been shown its matrix alone?
